// What is read of a record beside its text: whether it is learnt, who speaks first, and what is named as not
// read.
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/text.h"
#include "launcher/data/documents/documents.h"
#include "launcher/data/documents/record.h"
#include "launcher/data/kinds/open_samples.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

Record read(const std::string& record) { return RecordReader({}).read(Json::parse(record), "here"); }
// All of it, with what is learnt in <>.
std::string shown(const std::string& record) {
  std::string out;
  for (const auto& part : read(record).parts) out += part.counts ? str("<", part.text, ">") : part.text;
  return out;
}

constexpr const char* kNotLearnt[] = {R"("weight": 0)",   R"("weight": 0.0)",  R"("loss_weight": 0)",
                                      R"("loss": false)", R"("train": false)", R"("training": false)"};
constexpr const char* kLearnt[] = {R"("weight": 1)",   R"("loss_weight": 1.0)", R"("loss": true)",
                                   R"("train": true)", R"("weight": null)",     R"("loss": null)",
                                   R"("mask": null)"};

TEST(Records, SayWhetherTheyAreLearnt) {
  const std::string records[] = {
      R"("text": "b")", R"("prompt": "a", "completion": "b")", R"("instruction": "a", "output": "b")",
      R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])"};
  for (const auto& record : records) {
    const std::string whole = shown("{" + record + "}");
    EXPECT_NE(whole.find("<b"), std::string::npos) << whole;
    std::string text;
    for (const auto& part : read("{" + record + "}").parts) text += part.text;
    for (const char* said : kLearnt) EXPECT_EQ(shown(str("{", record, ", ", said, "}")), whole) << said;
    for (const char* said : kNotLearnt) EXPECT_EQ(shown(str("{", record, ", ", said, "}")), text) << said;
  }
}

// The end is not learnt of a record that is not.
TEST(Records, TheirEndIsLearntWithThem) {
  ScratchFolder folder;
  DataOptions options;
  options.tokenizer =
      folder.write("t.json", R"({"added_tokens": [{"id": 2, "content": "</s>", "special": true}],
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  const DocumentMaker maker(options);
  auto tokens = [&](const std::string& more) {
    return maker.document(read(str(R"({"prompt": "a", "completion": "b")", more, "}")), "here");
  };
  EXPECT_EQ(tokens(""), (std::vector<uint32_t>{0, 1 | kCounts, 2 | kCounts}));
  for (const char* said : kNotLearnt)
    EXPECT_EQ(tokens(str(", ", said)), (std::vector<uint32_t>{0, 1, 2})) << said;
}

TEST(Records, MessagesSayWhetherTheyAreLearnt) {
  auto messages = [](const std::string& more) {
    return str(R"({"messages": [{"role": "assistant", "content": "b", )", more,
               R"(}, {"role": "assistant", "content": "c"}]})");
  };
  for (const char* said : kLearnt)
    EXPECT_EQ(shown(messages(said)),
              "<|im_start|>assistant\n<b<|im_end|>>\n<|im_start|>assistant\n<c<|im_end|>>\n")
        << said;
  for (const char* said : kNotLearnt)
    EXPECT_EQ(shown(messages(said)),
              "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>assistant\n<c<|im_end|>>\n")
        << said;
}

TEST(Records, SystemBesideAConversationIsItsFirstMessage) {
  const std::string want =
      shown(R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"},
                                    {"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(
      shown(
          R"({"system": "s", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})"),
      want);
  EXPECT_EQ(shown(R"({"system": "s", "instruction": "a", "output": "b"})"), want);
  EXPECT_EQ(
      shown(
          R"({"system": "s", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"),
      want);
  EXPECT_EQ(shown(R"({"system": "", "instruction": "a", "input": null, "history": [], "output": "b"})"),
            shown(R"({"instruction": "a", "output": "b"})"));
}

TEST(Records, NameWhatIsNotRead) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(read(R"({"text": "a", "prompt": "b", "completion": "c", "id": 1, "url": "d"})").unread,
            Names{"\"text\""});
  EXPECT_EQ(read(R"({"text": "a", "weight": 1, "tools": [], "title": ""})").unread, Names{});
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": "a", "name": "n"},
                                  {"role": "assistant", "content": "b", "reasoning_content": "c", "tool_calls": null},
                                  {"role": "assistant", "content": "b", "reasoning_content": "d"}], "tools": [{}]})")
                .unread,
            (Names{"\"tools\"", "\"name\" of messages", "\"reasoning_content\" of messages"}));
  EXPECT_EQ(read(R"({"instruction": "a", "output": "b", "category": "c", "system": "s"})").unread,
            Names{"\"category\""});
}

TEST(Records, OfClassesNameWhatIsNotRead) {
  const auto unread = [](const std::string& record) {
    return read_labelled(Json::parse(record), {}, "here", 1).unread;
  };
  EXPECT_EQ(unread(R"({"text": "a", "label": 1, "idx": 3})"), std::vector<std::string>{});
  EXPECT_EQ(unread(R"({"sentence1": "a", "sentence2": "b", "label": 1, "weight": 1, "title": "t"})"),
            std::vector<std::string>{"\"title\""});
}

// Once a name, however many records have it.
TEST(Records, WhatIsNotReadIsWarnedOf) {
  ScratchFolder folder;
  std::string lines = "{\"text\": \"hello\", \"id\": 1}\n";
  for (int i = 0; i < 200; ++i) lines += "{\"text\": \"hello\", \"title\": \"t\"}\n";
  for (int i = 0; i < 20; ++i) lines += str("{\"text\": \"hello\", \"x", 10 + i, "\": 1}\n");
  const std::string path = folder.write("a.jsonl", lines);
  const std::string more = folder.write("b.jsonl", "{\"text\": \"hello\", \"x10\": 1}\n");
  DataOptions options{.kind = "jsonl", .paths = {path, more}};
  options.cache = folder.path("cache");
  ::usleep(2'100'000);  // what was written moments ago is not kept
  auto opened = [&] {
    testing::internal::CaptureStderr();
    open_samples(options, {{"ids", DType::i32, {8}},
                           {"targets", DType::i32, {8}},
                           {"documents", DType::i32, {8}},
                           {"positions", DType::i32, {8}}});
    return testing::internal::GetCapturedStderr();
  };
  const std::string said = opened();
  EXPECT_NE(
      said.find("warning: data: \"title\" is not read, and 200 records have it, the first in " + path +
                ", line 2; write what a model should see into the members that are read (docs/recipes.md)"),
      std::string::npos)
      << said;
  EXPECT_NE(said.find("\"x10\" is not read, and 2 records have it, the first in " + path + ", line 202;"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("warning: data: and 5 more members are not read"), std::string::npos) << said;
  EXPECT_EQ(said.find("\"id\""), std::string::npos) << said;
  EXPECT_EQ(opened(), said);  // of kept tokens, too
}

}  // namespace
}  // namespace lockstep::launcher::data
