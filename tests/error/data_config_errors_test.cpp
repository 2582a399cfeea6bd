// The section data of a config: keys of other kinds, words of the neighbours, sources, each on its words.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {
namespace {

std::string of(const std::string& text, const std::vector<Override>& overrides = {}) {
  try {
    parse_config(text, "c.json", overrides);
    return "accepted";
  } catch (const UserError& error) { return error.what(); }
}
std::string with(const std::vector<std::string>& words) {
  return of(R"({"data": {"paths": ["a"]}})", parse_overrides(words, {}));
}

TEST(DataConfigErrors, StreamsOfAShell) {
  const std::string why =
      ", a stream of this shell, which gives its bytes once, and each rank reads for itself; write them to a "
      "file, "
      "and name that";
  EXPECT_EQ(with({"--data.paths=[\"x\",\"/dev/fd/63\"]"}),
            "c.json: data.paths is [\"x\",\"/dev/fd/63\"]" + why);
  EXPECT_EQ(with({"--data.paths=[\"@/dev/stdin\"]"}), "c.json: data.paths is [\"@/dev/stdin\"]" + why);
  EXPECT_EQ(
      with({"--data.tokenizer=/proc/self/fd/5"}).find("c.json: data.tokenizer is \"/proc/self/fd/5\"" + why),
      0u);
}

// A key that could not be read leaves others at their defaults, of which nothing is said.
TEST(DataConfigErrors, AMisreadKeyMakesNoSecondError) {
  EXPECT_EQ(of(R"({"data": {"rows": ["a"]}})"), "c.json: unknown key data.rows; did you mean model.rows?");
  EXPECT_EQ(of(R"({"data": {"path": ["a"]}})"), "c.json: unknown key data.path; did you mean data.paths?");
  EXPECT_EQ(of(R"({"dta": {"paths": ["a"]}})").find("c.json: unknown key dta; "), 0u);
  EXPECT_EQ(of(R"({"data": ["a"]})").find("c.json: data is [\"a\"], a list; it must be a section "), 0u);
  EXPECT_EQ(of(R"({"data": {"sources": "a"}})").find("c.json: data.sources is \"a\", a string; "), 0u);
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "batch": {"macro": 5, "global": 6}})"),
            "c.json: unknown key batch.macro; did you mean batch.micro?");
  for (const char* text :
       {R"({"dta": {"paths": ["a"]}})", R"({"data": ["a"]})", R"({"data": {"sources": "a"}})"})
    EXPECT_EQ(of(text).find(" errors"), std::string::npos) << of(text);
  // What is said of keys that were read is still said.
  EXPECT_EQ(of(R"({"data": {"paths": ["a"], "rows": 1}, "batch": {"global": 7, "micro": 2}})"),
            "c.json: 2 errors\n  unknown key data.rows; did you mean model.rows?\n  batch.global is 7, not "
            "a multiple of batch.micro, 2; 6 and 8 are");
}

// A name with a line end begins no line of its own.
TEST(DataConfigErrors, KeysStayInTheirLine) {
  const std::string told = of("{\"data\": {\"paths\": [\"a\"]}, \"x\\nroot cause: y\": 1}");
  EXPECT_EQ(told.find("c.json: unknown key x\\nroot cause: y"), 0u) << told;
}

TEST(DataConfigErrors, KeysOfOtherKindsAndWords) {
  const std::string kinds = "choose text | tokens | jsonl | images | arrays; did you mean ";
  for (const auto& [word, near] : {std::pair{"imagefolder", "images"}, {"sft", "jsonl"}, {"npz", "arrays"}})
    EXPECT_EQ(with({str("--data.kind=", word)}),
              str("c.json: data.kind is \"", word, "\"; ", kinds, near, "?"));
  EXPECT_EQ(
      with({"--data.pack=none"}),
      "c.json: data.pack is \"none\", but it belongs to data.kind jsonl and data.kind is text; leave it "
      "out, or choose jsonl");
  EXPECT_EQ(
      with({"--data.image.flip=true"}),
      "c.json: data.image.flip is true, but it belongs to data.kind images and data.kind is text; leave "
      "it out, or choose images");
  EXPECT_EQ(with({"--data.kind=images", "--data.image.crop_share=0.5"}),
            "c.json: data.image.crop_share is 0.5, but it belongs to data.image.crop random and "
            "data.image.crop is center; leave it out, or choose random");
  EXPECT_EQ(with({"--data.eos=none"}),
            "c.json: data.eos is \"none\", but it belongs to data.tokenizer a tokenizer.json and "
            "data.tokenizer is bytes; leave it out, or choose a tokenizer.json");
  EXPECT_EQ(with({"--data.kind=arrays", "--data.tokenizer=t.json"}),
            "c.json: data.tokenizer is \"t.json\", but it belongs to data.kind text, jsonl or tokens and "
            "data.kind is arrays; leave it out, or choose text, jsonl or tokens");
  EXPECT_EQ(with({"--data.kind=jsonl", "--model.vocab=100"}),
            "c.json: model.vocab is 100, but text as bytes has 256 tokens; use 256 or more");
  EXPECT_EQ(with({"--data.kind=jsonl", "--model.vocab=100", "--data.tokenizer=t.json"}), "accepted");
}

TEST(DataConfigErrors, Classes) {
  const std::vector<std::string> texts = {"--data.kind=jsonl", "--model.kind=bert_classifier",
                                          "--model.classes=3"};
  auto and_classes = [&](const std::string& list) {
    auto words = texts;
    words.push_back("--data.classes=" + list);
    return with(words);
  };
  EXPECT_EQ(and_classes(R"(["a","b","c"])"), "accepted");
  EXPECT_EQ(and_classes(R"(["a","b"])"),
            "c.json: data.classes lists 2 classes, and model.classes is 3; set model.classes to 2");
  EXPECT_EQ(and_classes(R"(["a","b","a"])"),
            "c.json: data.classes lists \"a\" as class 0 and as class 2; give each class a name of its own");
  EXPECT_EQ(with({"--data.kind=jsonl", "--data.label=stars"}),
            "c.json: data.label is \"stars\", but it belongs to task.kind classification and task.kind is "
            "causal_lm; "
            "leave it out, or choose classification");
  EXPECT_EQ(with({"--data.label=stars"}),
            "c.json: data.label is \"stars\", but it belongs to data.kind jsonl and data.kind is text; leave "
            "it out, "
            "or choose jsonl");
}

TEST(DataConfigErrors, Sources) {
  EXPECT_EQ(with({R"(--data.sources=[{"paths": ["b"]}])"}),
            "c.json: data.paths and data.sources are both given; name all files in one of them");
  EXPECT_EQ(of(R"({"data": {"sources": [{"paths": ["a"], "weight": 2}, {"paths": ["b"], "text": "body"}]}})"),
            "accepted");
  EXPECT_EQ(of(R"({"data": {"sources": [{"paths": []}, {"paths": ["b"], "weight": -1}]}})"),
            "c.json: 2 errors\n"
            "  data.sources[0]: paths is empty; name files, directories or globs\n"
            "  data.sources[1]: weight is -1; give a number above 0, or leave the source out");
  EXPECT_NE(
      of(R"({"data": {"sources": [{"path": "a"}]}})")
          .find("data.sources is [{\"path\":\"a\"}], a list; it must be a list of {paths, weight} rows, "
                "like its default []"),
      std::string::npos);
}

}  // namespace
}  // namespace lockstep::launcher
