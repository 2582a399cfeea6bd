// Beside the catalogue: configs and command lines that ask for too much, that are written in others' words,
// or that would steer a terminal.
#include <chrono>
#include <cmath>

#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

class HostileInput : public FaultRun {
 protected:
  // The refusal of a command, in bounded time.
  std::string refused(const std::vector<std::string>& words, const std::string& what) {
    const auto start = std::chrono::steady_clock::now();
    const Result result = trainrun(words, {}, 30);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    slowest_ = std::max(slowest_, seconds);
    EXPECT_EQ(result.code, kExitUser) << join(words, " ").substr(0, 200) << "\n"
                                      << result.output.substr(0, 1000);
    EXPECT_HAS(result.output.substr(0, 10000), what);
    EXPECT_LT(seconds, 10);
    return result.output;
  }
  std::string refused_text(const std::string& text, const std::string& what) {
    scratch_.write("hostile.json", text);
    return refused({"show", "hostile.json"}, what);
  }
  static std::string line_with(const std::string& text, const std::string& words) {
    for (const auto& line : split(text, '\n'))
      if (line.find(words) != std::string::npos) return line;
    return "";
  }
  double slowest_ = 0;
};

TEST_F(HostileInput, Row51NestingAndNumbers) {
  write_tiny();
  const std::string deep(100000, '[');
  for (const char* path : {"name", "model", "placements", "data"})
    refused_text(str("{\"", path, "\": ", deep), "nested deeper than 64 lists and sections");
  refused({"show", "c.json", "--mesh.shape=" + std::string(60000, '[')},
          "nested deeper than 64 lists and sections");
  refused_text("{\"optim\": {\"lr\": 1e400}}",
               "line 1, column 18: 1e400 is beyond the largest number, 1.8e308");
  refused({"plan", "c.json", "--model.depth=1000000"},
          "model.depth is 1000000; it must be at least 1 and at most 1024");
  refused({"plan", "c.json", "--model.depth=1099511627776"},
          "model.depth is 1099511627776; it must be at least 1 and at most 1024");
  refused({"plan", "c.json", "--model.width=4611686018427387904"},
          "model.width is 4611686018427387904; it must be at least 1 and at most 1048576");
  refused({"c.json", "--compile.threads=100000"},
          "compile.threads is 100000; it must be at least 0 and at most 1024");
  refused({"--nproc", "1000000", "c.json"}, "--nproc is 1000000; at most 4096 ranks run on one host");
  refused({"plan", "--nproc", "1000000", "c.json"},
          "--nproc is 1000000; at most 16384 ranks are planned for");
  EXPECT_FALSE(std::filesystem::exists("runs"));
  row({.fault = "lists 100,000 deep in a config and on the command line; 1e400, 2^40, 2^62, 100,000 threads, "
                "a million blocks, a million ranks",
       .seen = "line 1, column 70: nested deeper than 64 lists and sections; model.width is "
               "4611686018427387904; it must be at least 1 and at most 1048576",
       .code = "2",
       .detected = str("at most ", number_text(std::ceil(slowest_ * 10) / 10), " s"),
       .recovered = "-",
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(HostileInput, Row52SizesAndPatterns) {
  write_tiny();
  std::string keys = "{\"name\": \"x\"";
  for (int i = 0; i < 1000000; ++i) keys += str(",\"key", i, "\":1");
  const std::string many = refused_text(keys + "}", "hostile.json: 1000000 errors\n  unknown key key0; ");
  EXPECT_HAS(many, "\n  and 999980 more");
  refused_text(std::string(20 << 20, ' '), "it has 20.00 MiB, and at most 16.00 MiB are read");
  refused({"plan", "c.json",
           "--placements=[{\"dim\":\"tp\",\"params\":\"" + std::string(2000, '*') +
               "\",\"place\":\"replicate\"}]"},
          "has 2000 characters; at most 256 are read");
  std::string stars;
  for (int i = 0; i < 100; ++i) stars += "*e";
  refused({"plan", "c.json",
           "--placements=[{\"dim\":\"dp_replicate\",\"params\":\"" + stars + "x\",\"place\":\"replicate\"}]"},
          "no tensor has a name like");
  row({.fault = "a million unknown keys (14 MB), a config of 20 MB, patterns of 2,000 and of 100 stars",
       .seen = "1000000 errors: unknown key key0; ... and 999980 more",
       .code = "2",
       .detected = str("at most ", number_text(std::ceil(slowest_ * 10) / 10), " s"),
       .recovered = "-",
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(HostileInput, Row53ControlCharacters) {
  write_tiny();
  const std::string steer = "\x1b[2J\x1b]0;owned\a\r";
  for (const auto& words : std::vector<std::vector<std::string>>{{"show", "c.json", "--name=" + steer},
                                                                 {"no" + steer + ".json"},
                                                                 {"explain", steer},
                                                                 {"ckpt", "ls", "runs/" + steer},
                                                                 {"c.json", "--data.paths=" + steer},
                                                                 {"c.json",
                                                                  "--data.paths=\xc2\x9b"
                                                                  "2J"},
                                                                 {"c.json", steer}}) {
    const Result result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_EQ(result.output.find_first_of("\x1b\a\r"), std::string::npos) << words.back();
    EXPECT_EQ(result.output.find('\xc2'), std::string::npos) << words.back();
    EXPECT_TRUE(result.output.find("\\x1b[2J") != std::string::npos ||
                result.output.find("\\u") != std::string::npos)
        << result.output;
  }
  refused({"show", "c.json", "--name=\xff\xfe"}, "is not UTF-8");
  // The same in a manifest, which anybody may have written.
  train({"--train.device=cpu", "--train.steps=1", "c.json"});
  std::string manifest = file_text("runs/run/ckpt/step-1/manifest.json");
  manifest.replace(manifest.find("\"f32\""), 5, "\"f\\u001b[2J\"");
  std::ofstream("runs/run/ckpt/step-1/manifest.json") << manifest;
  for (const char* verb : {"ls", "show", "verify"}) {
    const Result result = trainrun({"ckpt", verb, "runs/run"});
    EXPECT_EQ(result.output.find('\x1b'), std::string::npos) << result.output;
  }
  row({.fault =
           "ESC, BEL, CR, C1 controls and bytes that are no UTF-8 in names, paths, overrides and a manifest",
       .seen = "\\x1b[2J",
       .code = "2",
       .detected = "every line of trainrun and of its ranks' logs passes one function",
       .recovered = "-",
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(HostileInput, Row54WordsOfTheNeighbours) {
  write_tiny();
  refused({"c.json", "--batch-size=8"},
          "batch.global is samples per step on all ranks together, batch.micro those of a micro-batch");
  refused({"c.json", "--learning_rate=1"}, "did you mean optim.lr?");
  refused({"c.json", "--train.device=gpu"}, "did you mean cuda?");
  refused({"c.json", "--mesh.dim_names=[fsdp]"}, "nearest: dp_shard");
  refused_text("{\"n_layer\": 4}", "unknown key n_layer; did you mean model.depth?");
  refused_text("{\n  \"name\": \"x\",\n  'model': {}\n}",
               "line 3, column 3: this is not JSON: invalid literal; expected string literal\n      'model': "
               "{}\n      ^");
  for (const char* word : {"dp_shard", "bucket", "certificate", "lane", "fsdp", "gpu"}) {
    const Result known = trainrun({"explain", word});
    EXPECT_EQ(known.code, kExitOk) << known.output;
    EXPECT_HAS(known.output, str(word, ": "));
  }
  EXPECT_HAS(trainrun({"help", "run"}).output, "--max-restarts");
  // Comments, and a comma too many, are taken.
  std::string text = file_text("c.json");
  scratch_.write("commented.json", "// a run\n{ \"$schema\": \"any\", /* what follows */ " +
                                       text.substr(1, text.rfind('}') - 1) + ", }\n");
  EXPECT_EQ(trainrun({"show", "commented.json"}).output, trainrun({"show", "c.json"}).output);
  row({.fault = "words of other frameworks (batch_size, learning_rate, n_layer, fsdp, gpu), JSON with a "
                "wrong quote, comments and $schema",
       .seen = "unknown key n_layer; did you mean model.depth?; line 3, column 3: this is not JSON, with the "
               "line; comments are taken",
       .code = "2; 0",
       .detected = "at start",
       .recovered = "-",
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(HostileInput, Row55SmokeRuns) {
  write_tiny();
  const Result warmup = trainrun({"--train.device=cpu", "--train.steps=2", "--optim.schedule.kind=cosine",
                                  "--optim.schedule.warmup=2000", "c.json"});
  EXPECT_EQ(warmup.code, kExitOk) << warmup.output;
  EXPECT_HAS(warmup.output,
             "trainrun: warning: optim.schedule.warmup is 2000, and the run has 2 steps (train.steps): the "
             "rate never "
             "reaches optim.lr");
  const Result plan = trainrun({"plan", "c.json", "--data.paths=[]"});
  EXPECT_EQ(plan.code, kExitOk) << plan.output;
  row({.fault = "a run shorter than its warm-up; a plan without data",
       .seen = "optim.schedule.warmup is 2000, and the run has 2 steps (train.steps): the rate never reaches "
               "optim.lr",
       .code = "0",
       .detected = "at start",
       .recovered = "-",
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(HostileInput, Row56TpThatSplitsNothing) {
  write_tiny();
  const std::vector<std::string> on_tp = {
      "--nproc", "2", "--train.device=cpu", "--train.steps=2", "--mesh.dim_names=[tp]", "c.json"};
  auto with = [&](const std::string& more) {
    auto words = on_tp;
    words.push_back(more);
    return trainrun(words);
  };
  const Result nothing =
      with("--placements=[{\"dim\":\"tp\",\"params\":\"blocks.**\",\"place\":\"replicate\"}]");
  EXPECT_EQ(nothing.code, kExitUser) << nothing.output;
  EXPECT_HAS(nothing.output,
             "the mesh [tp=2] has 2 ranks on tp, but no parameter is split on it: each of them would compute "
             "all of the step");
  const Result some = with("--name=some");
  EXPECT_EQ(some.code, kExitOk) << some.output;
  EXPECT_HAS(some.output, "on tp, ");
  EXPECT_HAS(some.output, " parameters stay whole: token.weight, ");
  auto plan = on_tp;
  plan.insert(plan.begin(), {"plan", "--long"});
  EXPECT_HAS(trainrun(plan).output, " parameters stay whole: token.weight, ");
  row({.fault = "a mesh with tp and no tensor that it splits; a model of which it splits some",
       .seen = "the mesh [tp=2] has 2 ranks on tp, but no parameter is split on it; " +
               line_with(some.output, "on tp, ").substr(0, 60) + "...",
       .code = "2; 0",
       .detected = "before a step is compiled",
       .recovered = "-",
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(HostileInput, Row57ClangInPlaceOfGcc) {
  if (std::system("command -v clang++ > /dev/null 2>&1") != 0) GTEST_SKIP() << "no clang++ here";
  write_tiny();
  const Result result = trainrun({"--train.device=cpu", "--train.steps=1", "c.json"},
                                 {{"LOCKSTEP_CXX", "clang++"}, {"LOCKSTEP_CACHE", scratch_.path("cache")}});
  EXPECT_EQ(result.code, kExitUser) << result.output;
  EXPECT_HAS(result.output,
             "kernels are written for g++, which clang is not: set LOCKSTEP_CXX=g++, or leave it out");
  row({.fault = "LOCKSTEP_CXX=clang++",
       .seen = "kernels are written for g++, which clang is not: set LOCKSTEP_CXX=g++, or leave it out",
       .code = "2",
       .detected = "when kernels are compiled",
       .recovered = "-",
       .lost = "0",
       .same_bits = "-"});
}

}  // namespace
}  // namespace lockstep::tests
