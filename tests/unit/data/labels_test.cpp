// Texts with classes as samples: rows, lengths, and what labels stand for. Text is read as bytes, so that
// tokens can be read; a tokenizer's frame is that of llama3's.
#include <gtest/gtest.h>

#include "launcher/data/kinds/open_samples.h"
#include "launcher/data/tokenizer/tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

struct Row {
  std::vector<int32_t> ids, segments;
  int32_t length, label;
  std::string text() const { return {ids.begin(), ids.begin() + length}; }
  bool operator==(const Row&) const = default;
};

class Labels : public testing::Test {
 protected:
  DataOptions options(const std::string& lines) {
    return {.kind = "jsonl", .paths = {folder_.write("a.jsonl", lines)}, .order = "sequential"};
  }
  static std::unique_ptr<Samples> open(const DataOptions& options, int64_t classes) {
    return open_samples(options, {{"ids", DType::i32, {kContext}, options.vocab},
                                  {"lengths", DType::i32, {}, kContext + 1},
                                  {"token_type_ids", DType::i32, {kContext}, 2},
                                  {"labels", DType::i32, {}, classes}});
  }
  static Row row(const Samples& samples, int64_t i, bool validation = false) {
    Row out{std::vector<int32_t>(kContext, 77), std::vector<int32_t>(kContext, 77), 77, 77};
    const std::vector<void*> to = {out.ids.data(), &out.length, out.segments.data(), &out.label};
    validation ? samples.fill_validation(i, 1, to) : samples.fill(i, 1, 0, 1, to);
    return out;
  }
  static constexpr int64_t kContext = 8;
  ScratchFolder folder_;
};

TEST_F(Labels, ATextIsARowAndItsNumberTheClass) {
  const auto samples = open(options("{\"text\": \"yes\", \"label\": 1}\n\n"
                                    "{\"label\": 0, \"text\": \"longer than it\", \"id\": 7}\n"),
                            2);
  EXPECT_EQ(row(*samples, 0), (Row{{'y', 'e', 's', 0, 0, 0, 0, 0}, std::vector<int32_t>(kContext), 3, 1}));
  EXPECT_EQ(row(*samples, 1).text(), "longer t");
  EXPECT_EQ(row(*samples, 1).label, 0);
  EXPECT_EQ(row(*samples, 2), row(*samples, 0));  // the next epoch
  EXPECT_EQ(samples->counts(),
            (std::pair<std::string, std::string>{"texts", "2 for training, 0 for validation"}));
}

TEST_F(Labels, NamesAreClassesInTheOrderOfTheirBytesWhereverTheyStand) {
  const char* lines[] = {"{\"sentence\": \"b\", \"label\": \"pos\"}\n",
                         "{\"sentence\": \"a\", \"label\": \"neg\"}\n",
                         "{\"sentence\": \"c\", \"label\": \"Mid\"}\n"};
  for (const auto& order : {std::vector{0, 1, 2}, {2, 1, 0}}) {
    std::string all;
    for (int i : order) all += lines[i];
    const auto samples = open(options(all), 3);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(row(*samples, static_cast<int64_t>(i)).label,
                (std::vector{2, 1, 0})[static_cast<size_t>(order[i])]);
  }
}

TEST_F(Labels, ClassesOfTheConfigGiveTheirOrderAndMayBeMoreThanTheDataHas) {
  auto o = options("{\"text\": \"b\", \"stars\": \"good\"}\n{\"text\": \"a\", \"stars\": \"bad\"}\n");
  o.label_key = "stars", o.classes = {"good", "fair", "bad"};
  const auto samples = open(o, 3);
  EXPECT_EQ(row(*samples, 0).label, 0);
  EXPECT_EQ(row(*samples, 1).label, 2);
}

TEST_F(Labels, TheLastOfEachFileAreKept) {
  std::string lines;
  for (int i = 0; i < 10; ++i)
    lines += "{\"text\": \"t" + std::to_string(i) + "\", \"label\": " + std::to_string(i % 3) + "}\n";
  auto o = options(lines);
  o.validation = 0.2;
  const auto samples = open(o, 3);
  ASSERT_EQ(samples->validation(), 2);
  EXPECT_EQ(row(*samples, 0, true).text(), "t8");
  EXPECT_EQ(row(*samples, 1, true).label, 0);
  EXPECT_EQ(row(*samples, 8).text(), "t0");
}

// What stands around a text is in its row, and stays where its end is cut.
TEST_F(Labels, ATokenizersFrameIsKept) {
  const Tokenizer tokenizer(TOKENIZER);
  ASSERT_EQ(tokenizer.before().size(), 1u);
  auto o = options(
      "{\"text\": \"a\", \"label\": 0}\n{\"text\": \"one two three four five six seven eight nine\", "
      "\"label\": 1}\n");
  o.tokenizer = TOKENIZER, o.vocab = tokenizer.ids();
  auto samples = open(o, 2);
  EXPECT_EQ(row(*samples, 0).length, 2);
  EXPECT_EQ(row(*samples, 0).ids[0], tokenizer.before()[0]);
  EXPECT_EQ(row(*samples, 0).ids[1], tokenizer.encode("a")[0]);
  EXPECT_EQ(row(*samples, 1).length, kContext);
  // A token that ends a text is put behind it where the config names one.
  o.eos = "<|end_of_text|>";
  samples = open(o, 2);
  const int32_t end = tokenizer.id(o.eos).value();
  EXPECT_EQ(row(*samples, 0).length, 3);
  EXPECT_EQ(row(*samples, 0).ids[2], end);
  EXPECT_EQ(row(*samples, 1).length, kContext);
  EXPECT_EQ(row(*samples, 1).ids[kContext - 1], end);
}

// A store holds the words of its file: other classes need no other store.
TEST_F(Labels, AStoreThatIsKeptServesOtherClasses) {
  auto o = options("{\"text\": \"b\", \"label\": \"good\"}\n{\"text\": \"a\", \"label\": \"bad\"}\n");
  o.cache = folder_.path("cache");
  EXPECT_EQ(row(*open(o, 2), 0).label, 1);
  o.classes = {"good", "bad"};
  EXPECT_EQ(row(*open(o, 2), 0).label, 0);
}

}  // namespace
}  // namespace lockstep::launcher::data
