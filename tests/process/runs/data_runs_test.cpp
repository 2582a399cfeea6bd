// Mixtures and folders of pictures in whole runs: the same losses on any number of ranks, and on going on.
#include <cmath>

#include "tests/support/npy.h"
#include "tests/support/pictures.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class DataRuns : public RealRun {
 protected:
  std::vector<std::string> losses(const std::string& name) {
    return column(metrics_lines("runs/" + name + "/metrics.jsonl"), "loss");
  }
  // On 1, 2 and 3 ranks; and on 2, then on 3 from step 3 on.
  void expect_one_result() {
    for (const char* ranks : {"1", "2", "3"}) {
      auto result = trainrun({"--nproc", ranks, "c.json", str("--name=r", ranks)});
      ASSERT_EQ(result.code, kExitOk) << result.output;
    }
    ASSERT_EQ(losses("r1").size(), 6u);
    EXPECT_EQ(losses("r2"), losses("r1"));
    EXPECT_EQ(losses("r3"), losses("r1"));
    for (const auto& [ranks, steps] : {std::pair{"2", "3"}, std::pair{"3", "6"}}) {
      auto part = trainrun({"--nproc", ranks, "c.json", "--name=parts", str("--train.steps=", steps)});
      ASSERT_EQ(part.code, kExitOk) << part.output;
    }
    EXPECT_EQ(losses("parts"), losses("r1"));
  }
};

TEST_F(DataRuns, AMixtureHasOneResult) {
  std::string prose, sums;
  for (int i = 0; i < 60; ++i) {
    prose += str("{\"text\": \"The ", i, "th line of a text, ", std::string(static_cast<size_t>(i % 9), 'o'),
                 "\"}\n");
    sums += str("{\"question\": \"", i, "+1=\", \"answer\": \"", i + 1, "\"}\n");
  }
  scratch_.write("prose.jsonl", prose), scratch_.write("sums.jsonl", sums);
  scratch_.write("c.json", R"({"model": {"kind": "gpt", "vocab": 256, "context": 48, "width": 32, "depth": 1},
    "data": {"kind": "jsonl", "prompt": "question", "completion": "answer", "validation": 0.1,
             "sources": [{"paths": ["prose.jsonl"], "weight": 3}, {"paths": ["sums.jsonl"], "weight": 1}]},
    "batch": {"global": 12, "micro": 2}, "train": {"steps": 6}, "log": {"every": 1}})");
  expect_one_result();
  auto both = trainrun({"c.json", "--name=both", "--data.paths=[\"prose.jsonl\"]"});
  EXPECT_EQ(both.code, kExitUser);
  EXPECT_HAS(both.output, "data.paths and data.sources are both given; name all files in one of them");
  auto wrong = trainrun({"c.json", "--name=wrong", R"(--data.sources=[{"paths": [], "weight": 0}])"});
  EXPECT_HAS(wrong.output, "data.sources[0]: paths is empty; name files, directories or globs");
  EXPECT_HAS(wrong.output, "data.sources[0]: weight is 0; give a number above 0, or leave the source out");
}

TEST_F(DataRuns, FoldersOfPicturesHaveOneResult) {
  for (const char* name : {"dark", "light"})
    for (int i = 0; i < 20; ++i) {
      std::vector<uint8_t> pixels(12 * 10 * 3);
      for (size_t p = 0; p < pixels.size(); ++p)
        pixels[p] =
            static_cast<uint8_t>((name[0] == 'd' ? 20 : 160) + (p * 7 + static_cast<size_t>(i) * 13) % 60);
      scratch_.write(str("pictures/", name, "/", i, i % 2 ? ".png" : ".jpg"),
                     i % 2 ? png_file(12, 10, 3, pixels) : jpeg_file(12, 10, pixels));
    }
  scratch_.write(
      "c.json",
      R"({"model": {"kind": "vit", "size": 8, "patch": 4, "width": 16, "depth": 1, "heads": 2, "classes": 2},
    "data": {"kind": "images", "paths": ["pictures"], "validation": 0.1,
             "image": {"crop": "resized", "flip": true, "mean": [0.5], "std": [0.25]}},
    "batch": {"global": 12, "micro": 2}, "train": {"steps": 6}, "log": {"every": 1}})");
  expect_one_result();
}

// A NaN of the data is told with its row, whatever step reads it, in training and in validation.
TEST_F(DataRuns, ANaNInAnArrayIsToldWithItsRow) {
  std::vector<float> images(24 * 4);
  std::vector<int32_t> labels(24);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 7) * 0.1f;
  scratch_.write("labels.npy", npy("<i4", "24,", labels));
  scratch_.write(
      "c.json",
      R"({"model": {"kind": "mixer", "channels": 1, "size": 2, "patch": 1, "width": 8, "depth": 1, "classes": 3},
    "data": {"kind": "arrays", "paths": ["images.npy", "labels.npy"], "validation": 0.25},
    "batch": {"global": 6, "micro": 2}, "train": {"steps": 6}, "log": {"every": 1}})");
  auto told = [&](size_t row, const std::string& words) {
    std::vector<float> broken = images;
    broken[row * 4 + 2] = std::nanf("");
    scratch_.write("images.npy", npy("<f4", "24, 1, 2, 2", broken));
    for (const char* ranks : {"1", "2"}) {
      const auto result = trainrun({"--nproc", ranks, "c.json", str("--name=n", row, "-", ranks)});
      EXPECT_EQ(result.code, kExitUser) << result.output;
      EXPECT_HAS(result.output, words);
      EXPECT_HAS(result.output, str("(row ", row, " of the arrays); then, in micro-batch "));
      EXPECT_HAS(result.output, "Mend the sample, or take it out of the data");
    }
  };
  told(7,
       "the loss is nan and the gradient norm is nan; the data is not finite: field \"images\" is nan at "
       "[0,1,0] of "
       "sample ");
  told(20,
       "step 6: the validation loss is nan; the data is not finite: field \"images\" is nan at [0,1,0] of "
       "sample 2 "
       "of the batch");
}

// As few samples as no micro-batch has: that there is no validation is said.
TEST_F(DataRuns, AValidationOfLessThanAMicroBatchIsTold) {
  scratch_.write("images.npy", npy("<f4", "24, 1, 2, 2", std::vector<float>(24 * 4)));
  scratch_.write("labels.npy", npy("<i4", "24,", std::vector<int32_t>(24)));
  scratch_.write(
      "c.json",
      R"({"model": {"kind": "mixer", "channels": 1, "size": 2, "patch": 1, "width": 8, "depth": 1, "classes": 3},
    "data": {"kind": "arrays", "paths": ["images.npy", "labels.npy"], "validation": 0.05},
    "batch": {"global": 6, "micro": 2}, "train": {"steps": 1}})");
  const auto result = trainrun({"--nproc", "1", "c.json"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output,
             "data.validation keeps 1 sample, fewer than a micro-batch (batch.micro is 2): there will be "
             "no validation; keep more");
}

}  // namespace
}  // namespace lockstep::tests
