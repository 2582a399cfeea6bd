// Records with classes that are not read: each refusal names file, line and both values, on its words.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "launcher/data/kinds/open_samples.h"
#include "launcher/data/tokenizer/frames.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

using Json = nlohmann::json;

class LabelsErrors : public testing::Test {
 protected:
  static std::string refusal(const DataOptions& options, int64_t classes) {
    try {
      open_samples(options, {{"ids", DType::i32, {8}, 256},
                             {"lengths", DType::i32, {}, 9},
                             {"token_type_ids", DType::i32, {8}, 2},
                             {"labels", DType::i32, {}, classes}});
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  }
  DataOptions options(const std::string& lines) {
    return {.kind = "jsonl", .paths = {folder_.write("a.jsonl", lines)}};
  }
  std::string of(const std::string& lines, int64_t classes = 2) { return refusal(options(lines), classes); }
  std::string place(int line) {
    return "data.paths: " + folder_.path("a.jsonl") + ", line " + std::to_string(line);
  }
  ScratchFolder folder_;
};

TEST_F(LabelsErrors, Members) {
  EXPECT_EQ(of("{\"text\": \"a\", \"label\": 0}\n\n{\"text\": \"a\", \"labels\": 0}\n"),
            place(3) +
                ": the record has no \"label\"; it has: text, labels; name the member with the class in "
                "data.label, or take the record out");
  EXPECT_EQ(
      of("{\"review\": \"a\", \"label\": 0}\n"),
      place(1) +
          ": the record has no \"text\"; it has: review, label; name the member with the text in data.text");
  EXPECT_EQ(of("{\"text\": \" \\n\", \"label\": 0}\n"),
            place(1) + ": \"text\" is empty, and has nothing to tell its class by; take the record out");
  EXPECT_EQ(of("{\"text\": 3, \"label\": 0}\n"),
            place(1) + ": \"text\" is 3, and should be a text; take the record out, or name another member");
  for (const char* label : {"1.5", "null", "true", "\"\"", "[0]"})
    EXPECT_EQ(
        of(std::string("{\"text\": \"a\", \"label\": ") + label + "}\n"),
        place(1) + ": \"label\" is " + label + ", and should be a class: an integer from 0 on, or a name");
}

TEST_F(LabelsErrors, Weights) {
  for (const char* said : {"\"weight\": 0", "\"train\": false", "\"loss\": false"})
    EXPECT_EQ(
        of(str("{\"text\": \"a\", \"label\": 0, ", said, "}\n")),
        place(1) + ": the record says that it is not learnt, and all that have a class are; take it out");
  EXPECT_EQ(
      of("{\"text\": \"a\", \"label\": 0, \"weight\": 0.5}\n"),
      place(1) +
          ": the \"weight\" of the record is 0.5, and weights of 0 (not learnt) and 1 are read; leave it "
          "out, or make it one of them");
  EXPECT_EQ(of("{\"text\": \"a\", \"label\": 0, \"weight\": 1}\n"), "no error");
}

TEST_F(LabelsErrors, SecondTexts) {
  EXPECT_EQ(
      of("{\"text\": \"a\", \"text_pair\": \"b\", \"label\": 0}\n"),
      place(1) +
          ": the record has a second text, and text as bytes has nothing that stands between two; name a "
          "tokenizer.json with a post_processor in data.tokenizer, or write both into one member");
  EXPECT_EQ(of("{\"sentence1\": \"a\", \"sentence2\": \" \", \"label\": 0}\n"),
            place(1) + ": \"sentence2\" is empty, and has nothing to tell its class by; take the record out");
  EXPECT_EQ(
      of("{\"text\": \"a\", \"text_pair\": 7, \"label\": 0}\n"),
      place(1) + ": \"text_pair\" is 7, and should be a text; take the record out, or name another member");
  EXPECT_EQ(of("{\"text\": \"a\", \"text_pair\": null, \"label\": 0}\n"), "no error");
  DataOptions o = options("{\"premise\": \"a\", \"hypothsis\": \"b\", \"label\": 0}\n");
  o.text_key = "premise", o.pair_key = "hypothesis";
  EXPECT_EQ(refusal(o, 2),
            place(1) +
                ": the record has no \"hypothesis\"; it has: premise, hypothsis, label; name the member "
                "with the second text in data.text_pair, or leave it out");
  const Json template_of = {{"type", "TemplateProcessing"},
                            {"single", Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
                            {"pair", Json::array({{{"Sequence", {{"id", "B"}, {"type_id", 0}}}}})},
                            {"special_tokens", Json::object()}};
  auto with = [&](const Json& after) {
    try {
      read_frames(after, "t.json: post_processor");
    } catch (const UserError& error) { return std::string(error.what()); }
    return std::string("no error");
  };
  EXPECT_EQ(with(template_of),
            "t.json: post_processor: the template of two texts is "
            "[{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}], and A and then B are read, each once");
  Json third = template_of;
  third["pair"] = Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 2}}}}});
  EXPECT_EQ(with(third), "t.json: post_processor: a type_id is 2, and segments 0 and 1 are read");
  third["pair"] = Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}});
  EXPECT_EQ(with(third),
            "t.json: post_processor: the template of two texts is "
            "[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}], and A and then B are read, each once");
}

TEST_F(LabelsErrors, Classes) {
  EXPECT_EQ(
      of("{\"text\": \"a\", \"label\": 0}\n{\"text\": \"a\", \"label\": 2}\n"),
      place(2) +
          ": \"label\" is 2, and model.classes is 2: classes are 0 to 1; set model.classes to 3 or more, "
          "or mend the record");
  EXPECT_EQ(of("{\"text\": \"a\", \"label\": -1}\n"),
            place(1) +
                ": \"label\" is -1, and model.classes is 2: classes are 0 to 1; take records without a class "
                "out");
  EXPECT_EQ(
      of("{\"text\": \"a\", \"label\": 18446744073709551615}\n"),
      place(1) +
          ": \"label\" is 18446744073709551615, and model.classes is 2: classes are 0 to 1; take records "
          "without a class out");
  EXPECT_EQ(of("{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"a\", \"label\": 1}\n"),
            place(2) + ": \"label\" is 1, and in " + folder_.path("a.jsonl") +
                ", line 1 it is \"x\"; write all classes as numbers, or all as names");
  const std::string names = "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"a\", \"label\": \"y\"}\n";
  EXPECT_EQ(of(names, 3),
            "data.paths: the labels have 2 names (x, y), and model.classes is 3; set model.classes to "
            "2, or list all classes in data.classes");
  DataOptions o = options("{\"text\": \"a\", \"label\": \"postive\"}\n");
  o.classes = {"negative", "positive"};
  EXPECT_EQ(refusal(o, 2), place(1) +
                               ": \"label\" is \"postive\", which data.classes does not list (negative, "
                               "positive); did you mean \"positive\"?");
}

TEST_F(LabelsErrors, Sources) {
  DataOptions o = options("{\"text\": \"a\", \"label\": \"x\"}\n");
  o.sources = {{.paths = o.paths}};
  EXPECT_EQ(refusal(o, 1),
            "data.sources[0]: the labels are names (x), and each of data.sources may have others; "
            "list all classes in data.classes, in their order");
  o.classes = {"x"};
  EXPECT_EQ(refusal(o, 1), "no error");
}

TEST_F(LabelsErrors, NothingToTrainOn) {
  DataOptions o = options("{\"text\": \"a\", \"label\": 0}\n");
  o.validation = 0.9;
  EXPECT_EQ(refusal(o, 2),
            "data.paths: 1 record in " + folder_.path("a.jsonl") +
                ", and data.validation, 0.9, keeps all of them (of each file the last, rounded): none "
                "is left to train on; keep fewer, or give more records");
}

}  // namespace
}  // namespace lockstep::launcher::data
