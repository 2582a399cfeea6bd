// Pairs of texts as rows of a classifier: ids and segments of the package `tokenizers`, whole and cut.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/data/kinds/open_samples.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

using Json = nlohmann::json;

Json json_in(const std::string& path) { return Json::parse(std::ifstream(path)); }

// tokenizer.json of a case, as pairs.py describes it.
std::string tokenizer_of(const Json& row, ScratchFolder& scratch) {
  Json described = json_in(std::string(TOKENIZERS "/") + row["tokenizer"].get<std::string>());
  if (row["roberta"])
    described["post_processor"] = {{"type", "RobertaProcessing"},
                                   {"sep", {"[SEP]", 3}},
                                   {"cls", {"[CLS]", 2}},
                                   {"trim_offsets", true},
                                   {"add_prefix_space", false}};
  return scratch.write("tokenizer.json", described.dump());
}

TEST(TextPairs, AreTheRowsOfThePackageTokenizers) {
  ScratchFolder scratch;
  int cut = 0;
  const Json rows = json_in(TOKENIZERS "/pairs.json");
  ASSERT_GE(rows.size(), 100u);
  for (const Json& row : rows) {
    const int64_t context = row["context"];
    const Json record = {{"text", row["text"]}, {"text_pair", row["text_pair"]}, {"label", 1}};
    DataOptions options{.kind = "jsonl",
                        .paths = {scratch.write("a.jsonl", record.dump() + "\n")},
                        .tokenizer = tokenizer_of(row, scratch),
                        .vocab = 1000,
                        .eos = "none"};
    const auto samples = open_samples(options, {{"ids", DType::i32, {context}, 1000},
                                                {"lengths", DType::i32, {}, context + 1},
                                                {"token_type_ids", DType::i32, {context}, 2},
                                                {"labels", DType::i32, {}, 2}});
    std::vector<int32_t> ids(context, 77), segments(context, 77);
    int32_t length = 77, label = 77;
    samples->fill(0, 1, 0, 1, {ids.data(), &length, segments.data(), &label});
    const auto expected = row["ids"].get<std::vector<int32_t>>();
    auto expected_segments = row["segments"].get<std::vector<int32_t>>();
    EXPECT_EQ(std::vector(ids.begin(), ids.begin() + length), expected) << row.dump();
    expected_segments.resize(context);  // the padding
    EXPECT_EQ(segments, expected_segments) << row.dump();
    EXPECT_EQ(label, 1);
    cut += length == context;
  }
  EXPECT_GE(cut, 50);  // the rule by which they are cut was asked for
}

}  // namespace
}  // namespace lockstep::launcher::data
