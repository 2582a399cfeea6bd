// JSON lines that are not read: each refusal names file, line and member, on its words.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "core/base/error.h"
#include "launcher/data/kinds/open_samples.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/slowness.h"

namespace lockstep::launcher::data {
namespace {

const std::vector<SampleField> kFields = {{"ids", DType::i32, {8}}, {"targets", DType::i32, {8}}};

class DocumentsErrors : public testing::Test {
 protected:
  static std::string refusal(const DataOptions& options, const std::vector<SampleField>& fields = kFields) {
    try {
      open_samples(options, fields);
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  }
  DataOptions options(const std::string& lines) {
    DataOptions out{.kind = "jsonl", .paths = {folder_.write("a.jsonl", lines)}};
    out.pack = "none";
    return out;
  }
  void expect_says(const std::string& lines, const std::string& words) {
    expect_words(refusal(options(lines)), words);
  }
  static void expect_words(const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message << "\ndoes not say: " << words;
  }
  ScratchFolder folder_;
};

// A name with a line end begins no line of its own.
TEST_F(DocumentsErrors, NamesStayInTheirLine) {
  DataOptions one = options("");
  one.paths = {folder_.write("a\nroot cause: b.jsonl", "[1]\n")};
  expect_words(refusal(one), "a\\nroot cause: b.jsonl, line 1: the line is not a JSON object");
}

TEST_F(DocumentsErrors, Lines) {
  const std::string place = "data.paths: " + folder_.path("a.jsonl");
  expect_says("{\"text\": \"a\"}\n\n{\"text\": \"b\"\n", place + ", line 3, column 13: this is not JSON: ");
  const std::string once = refusal(options("{\"text\": \"b\"\n"));
  EXPECT_EQ(once.find("line 1", once.find("line 1") + 1), std::string::npos) << once;
  EXPECT_NE(once.find("an object on each line\n    {\"text\": \"b\"\n"), std::string::npos) << once;
  expect_says("{\"text\": \"b\"\n", "; a file of JSON lines has an object on each line");
  expect_says("[1]\n", place + ", line 1: the line is not a JSON object; a file of JSON lines has an object");
  expect_says("[\n{\"text\": \"a\"}\n]\n",
              str("json.load(open(sys.argv[1]))]' ", folder_.path("a.jsonl"), " > a-lines.jsonl"));
  // Of many lines, read by several threads, the first wrong one is told.
  std::string many;
  for (int i = 0; i < 500; ++i) many += i == 123 || i == 400 ? "{\n" : "{\"text\": \"ab\"}\n";
  expect_says(many, place + ", line 124, column ");
}

TEST_F(DocumentsErrors, Members) {
  expect_says(
      R"({"body": "a", "id": 1})",
      "line 1: the record has no \"text\", no \"messages\", no \"prompt\" and \"completion\"; it has: body, "
      "id; name the member with the text in data.text (data.messages, data.prompt, data.completion)");
  expect_says("{}", "it has: none;");
  expect_says(
      R"({"prompt": "a", "answer": "b"})",
      "line 1: the record has \"prompt\" and no \"completion\"; it has: prompt, answer; name the members in "
      "data.prompt and data.completion");
  expect_says(R"({"text": 3})",
              "line 1: \"text\" is 3, and should be a text; take the record out, or name another");
  expect_says(R"({"messages": "a"})",
              "\"messages\" is \"a\", and should be a list of {\"role\": ..., \"content\": ...}");
  expect_says(R"({"messages": [{"content": "a"}]})",
              "a message is {\"content\":\"a\"}, and should be {\"role\": ..., \"content\": ...}");
  expect_says(R"({"conversations": [{"from": "human", "value": 3}]})",
              "the \"value\" of a message is 3, and should be a text");
  expect_says(R"({"instruction": "a", "output": 3})",
              "the \"content\" of a message is 3, and should be a text");
  expect_says(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})",
              "the \"content\" of a message is [{\"type\":\"image\"}], and should be a text, or a list of");
}

TEST_F(DocumentsErrors, NothingToLearn) {
  const std::string path = folder_.path("a.jsonl");
  const std::string empty =
      " to train on none has a token to learn: their texts or completions are empty, one token with none "
      "before it, or of weight 0, or no message that is learnt has the role assistant; mend the records";
  expect_says("{\"text\": \"a\"}\n{\"text\": \"\"}\n",
              "data.paths: 2 records in " + path + ", and of the 2" + empty);
  expect_says(R"({"messages": [{"role": "user", "content": "a"}]})",
              "1 record in " + path + ", and of the 1" + empty);
  expect_says(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}]})", empty);
  expect_says("{\"prompt\": \"a\", \"completion\": \"\"}\n", empty);
  expect_says("", "data.paths: there is no record in " + path +
                      " (0 bytes); write records as JSON objects, one a line, or name other files");
  expect_says("\n\n", "data.paths: there is no record in " + path + " (2 bytes)");
  DataOptions o = options("{\"text\": \"abc\"}\n{\"text\": \"abc\"}\n");
  o.validation = 0.9;
  expect_words(refusal(o),
               "data.paths: 2 records in " + path +
                   ", and data.validation, 0.9, keeps all of them (of each file the last, rounded): none "
                   "is left to train on; keep fewer, or give more records");
  o.validation = 0;
  auto whole_rows = [](int64_t context) {
    return std::vector<SampleField>{{"ids", DType::i32, {context}},
                                    {"special_tokens_mask", DType::i32, {context}}};
  };
  expect_words(refusal(o, whole_rows(64)), "data.pack is none");
  o.pack = "documents";
  expect_words(
      refusal(o, whole_rows(64)),
      "and of the 2 to train on all together have fewer tokens than a row of model.context, 64; give more "
      "records, or a smaller context");
  DataOptions read = options(R"({"text": "abc", "weight": 0})");
  read.pack = "documents";
  expect_words(refusal(read, whole_rows(2)), empty);
  expect_words(
      refusal(options("{\"prompt\": \"a\", \"completion\": \"\"}\n"),
              {{"ids", DType::i32, {6}}, {"decoder_ids", DType::i32, {5}}, {"targets", DType::i32, {5}}}),
      "and of the 1 to train on none has a prompt followed by something to learn: prompts "
      "or "
      "completions are empty or of weight 0, or no message that is learnt has the role assistant");
}

TEST_F(DocumentsErrors, PackedFiles) {
  const std::pair<std::string, const char*> all[] = {
      {"\x1f\x8b\x08",
       "packed by gzip, and JSON lines are read as they are; unpack it (gunzip), and name the file"},
      {"\x28\xb5\x2f\xfd", "packed by zstd, and JSON lines are read as they are; unpack it (unzstd)"},
      {std::string("\xfd\x37zXZ\0", 6),
       "packed by xz, and JSON lines are read as they are; unpack it (unxz)"},
      {"BZh9", "packed by bzip2, and JSON lines are read as they are; unpack it (bunzip2)"}};
  for (const auto& [begin, words] : all)
    expect_says(begin + "{}\n", str("data.paths: ", folder_.path("a.jsonl"), " is ", words));
}

// What would be lost of a record, or changes what is asked.
TEST_F(DocumentsErrors, WhatIsNotReadOfARecord) {
  expect_says(R"({"instruction": "a", "input": ["b"], "output": "c"})",
              "line 1: \"input\" is [\"b\"], and should be");
  expect_says(R"({"instruction": "a", "input": 5, "output": "c"})",
              "line 1: \"input\" is 5, and should be a text");
  expect_says(R"({"instruction": "a", "history": [["b", "c"]], "output": "c"})",
              "line 1: \"history\" is [[\"b\",\"c\"]], and what was said before an instruction is not read; "
              "write the "
              "conversation as \"messages\" of role and content");
  for (const char* member : {"tool_calls", "function_call"})
    expect_says(
        str(R"({"messages": [{"role": "assistant", "content": "a", ")", member, R"(": [{"name": "f"}]}]})"),
        str("the \"", member,
            "\" of a message is [{\"name\":\"f\"}], and calls of tools are not read; write the "
            "call into the message's content, or take the record out"));
  expect_says(R"({"messages": [{"role": "assistant", "content": [{"type": "thinking", "text": "a"}]}]})",
              "and should be a text, or a list of {\"type\": \"text\"");
  expect_says(R"({"system": "s", "messages": [{"role": "system", "content": "t"}]})",
              "line 1: the record has \"system\" and a first message of the role system; keep one");
  expect_says(R"({"system": 3, "conversations": []})", "line 1: \"system\" is 3, and should be a text");
}

TEST_F(DocumentsErrors, WeightsOfRecords) {
  auto record = [](const std::string& more) {
    return str(R"({"prompt": "a", "completion": "b", )", more, "}");
  };
  for (const char* weight : {"0", "0.0"})
    for (const char* name : {"weight", "loss_weight"})
      expect_says(record(str('"', name, "\": ", weight)), "none has a token to learn");
  for (const char* name : {"train", "training", "loss"})
    expect_says(record(str('"', name, "\": false")), "none has a token to learn");
  expect_says(record("\"weight\": 0.5"),
              "line 1: the \"weight\" of the record is 0.5, and weights of 0 (not learnt)");
  expect_says(record("\"loss\": 2.5"), "the \"loss\" of the record is 2.5, and should be true or false");
  for (const char* name : {"mask", "masked", "loss_mask"})
    expect_says(record(str('"', name, "\": 1")),
                str("the \"", name,
                    "\" of the record is 1, and what is learnt is a whole record or message; take it "
                    "out, and say train or weight"));
  expect_says(R"({"messages": [{"role": "assistant", "content": "a", "mask": 1}]})",
              "the \"mask\" of a message is 1");
}

// What OpenAI and axolotl say of a message: whether it is learnt.
TEST_F(DocumentsErrors, WeightsOfMessages) {
  auto message = [](const std::string& role, const std::string& more) {
    return str(R"({"messages": [{"role": ")", role, R"(", "content": "a", )", more, "}]}");
  };
  for (const char* weight : {"0.5", "2", "-1"})
    expect_says(message("assistant", str("\"weight\": ", weight)),
                str("line 1: the \"weight\" of a message is ", weight,
                    ", and weights of 0 (not learnt) and 1 are read; leave it out, or make it one of them"));
  expect_says(message("assistant", "\"weight\": \"0\""),
              "the \"weight\" of a message is \"0\", and weights of 0");
  expect_says(message("assistant", "\"weight\": false"),
              "the \"weight\" of a message is false, and weights of 0");
  for (const char* member : {"train", "training"})
    expect_says(message("assistant", str("\"", member, "\": 0")),
                str("the \"", member, "\" of a message is 0, and should be true or false"));
  for (const char* more : {"\"weight\": 1", "\"train\": true"})
    expect_says(message("user", more),
                "and messages of the role assistant alone are learnt; write what a model should learn to "
                "write as such a "
                "message, or as prompt and completion");
  expect_says(message("assistant", "\"train_detail\": []"),
              "the \"train_detail\" of a message is [], and what is learnt is a whole record or message; "
              "take it out");
}

// The rest of a line that is too long is never read.
TEST_F(DocumentsErrors, LongLines) {
  const std::string path = folder_.path("long.jsonl");
  {
    // A file of 2 GiB that takes no room on the disk.
    folder_.write("long.jsonl", "{\"text\": \"a\"}\n{\"text\": \"");
    std::filesystem::resize_file(path, uintmax_t{2} << 30);
  }
  DataOptions o = options("");
  o.paths = {path};
  const auto began = std::chrono::steady_clock::now();
  expect_words(refusal(o),
               "data.paths: " + path +
                   ", line 2: the line is longer than 16.00 MiB, and a record is one line; cut it into "
                   "several records");
  EXPECT_LT(std::chrono::steady_clock::now() - began, kSlowness * std::chrono::seconds(5));
  std::string whole(size_t{17} << 20, ' ');
  expect_says(whole + "\n{}", "line 1: the line is longer than 16.00 MiB");
  expect_says(whole, "or is the file no file of JSON lines?");
}

TEST_F(DocumentsErrors, Templates) {
  DataOptions o = options(R"({"text": "ab"})");
  o.chat_template = "mistral";
  expect_words(refusal(o),
               "data.template is \"mistral\", which is none; choose chatml or llama3, or write each "
               "conversation as a record of prompt and completion");
  o.chat_template = "{% for message in messages %}";
  expect_words(refusal(o),
               "data.template is \"{% for message in messages %}\", and templates of Jinja are not run; "
               "choose chatml or llama3");
}

TEST_F(DocumentsErrors, Tokenizers) {
  DataOptions o = options(R"({"messages": [{"role": "assistant", "content": "ab"}]})");
  o.tokenizer =
      folder_.write("t.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  expect_words(refusal(o),
               "line 1: a conversation; data.template is chatml, whose <|im_start|> is no token of " +
                   folder_.path("t.json") +
                   " (data.tokenizer); choose the template that the tokenizer was made for (chatml or "
                   "llama3), or write conversations as prompt and completion");
  o.vocab = 1;
  expect_words(refusal(o), "model.vocab is 1, and " + folder_.path("t.json") +
                               " (data.tokenizer) has 2 ids; set model.vocab to 2 or more");
  o.tokenizer = "bytes";
  expect_words(refusal(o), "model.vocab is 1, and text as bytes has 256 ids; set model.vocab to 256 or more");
  o = options(R"({"text": "ac"})");
  o.tokenizer = folder_.path("t.json");
  expect_words(refusal(o),
               "a.jsonl, line 1: data.tokenizer: " + folder_.path("t.json") + " has no token for \"c\"");
}

TEST_F(DocumentsErrors, FilesAndFields) {
  DataOptions o = options(R"({"text": "ab"})");
  expect_words(
      refusal(o, {{"images", DType::f32, {2, 2}}, {"labels", DType::i32, {}}}),
      "data.kind is jsonl, rows of tokens, and a sample of this model and task has images f32[2,2], labels "
      "i32[]; choose a model of text: of the next token (gpt, llama, qwen, mistral, gemma; task.kind "
      "causal_lm), bert (masked_lm), t5 (seq2seq), or bert_classifier (classification)");
  DataOptions other = o;
  other.pack = "none";
  expect_words(refusal(other, {{"ids", DType::i32, {2}}}), "has ids i32[2]; choose a model of text");
  expect_words(refusal(other, {{"ids", DType::i32, {2}}, {"special_tokens_mask", DType::i32, {2}}}),
               "data.pack is none, and a model that sees all tokens of a row (task.kind masked_lm) would be "
               "trained on the padding after a record; leave data.pack out");
  other.pack = "documents";
  expect_words(
      refusal(other,
              {{"ids", DType::i32, {4}}, {"decoder_ids", DType::i32, {4}}, {"targets", DType::i32, {4}}}),
      "1 record in " + folder_.path("a.jsonl") +
          ", and of the 1 to train on none has a prompt followed by something to learn");
  folder_.write("d/a.txt", "x");
  o.paths = {folder_.path("d")};
  expect_words(refusal(o), "data.paths: no *.jsonl file in " + folder_.path("d") +
                               "; name files with another ending one by one");
}

}  // namespace
}  // namespace lockstep::launcher::data
