// Documents as samples: what is read of records, what is learnt of them, and how rows are filled. Text is
// read as bytes, so that tokens can be read.
#include <gtest/gtest.h>

#include <set>
#include <span>

#include "core/base/text.h"
#include "launcher/data/documents/document_samples.h"
#include "launcher/data/documents/packing.h"
#include "launcher/data/documents/record.h"
#include "launcher/data/kinds/open_samples.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

struct Row {
  std::vector<int32_t> ids, targets, documents, positions;
  // Ids as text; of targets those that are learnt, others as '.'.
  std::string text() const { return shown(ids); }
  std::string learnt() const { return shown(targets); }

 private:
  static std::string shown(const std::vector<int32_t>& values) {
    std::string out;
    for (int32_t value : values) out += value == -100 ? '.' : value == 0 ? '_' : static_cast<char>(value);
    return out;
  }
};

class Documents : public testing::Test {
 protected:
  DataOptions options(const std::string& lines, const std::string& pack) {
    DataOptions out{.kind = "jsonl", .paths = {folder_.write("a.jsonl", lines)}, .order = "sequential"};
    out.pack = pack, out.context = 16;
    return out;
  }
  static std::unique_ptr<Samples> open(const DataOptions& options) {
    std::vector<SampleField> fields;
    for (const char* name : {"ids", "targets", "documents", "positions"})
      if (fields.size() < 2 || options.pack == "documents")
        fields.push_back({name, DType::i32, {options.context}});
    return open_samples(options, fields);
  }
  static Row row(const Samples& samples, int64_t i, const DataOptions& options, bool validation = false) {
    Row out;
    const auto n = static_cast<size_t>(options.context);
    for (auto* field : {&out.ids, &out.targets, &out.documents, &out.positions}) field->assign(n, 77);
    std::vector<void*> to = {out.ids.data(), out.targets.data()};
    if (options.pack == "documents") to.push_back(out.documents.data()), to.push_back(out.positions.data());
    if (validation)
      samples.fill_validation(i, 1, to);
    else
      samples.fill(i, 1, 0, 1, to);
    return out;
  }
  ScratchFolder folder_;
};

TEST_F(Documents, TextIsLearntAndTheRestOfTheRowIsNot) {
  const auto o = options("{\"text\": \"hello\"}\n\n{\"text\": \"wörld\", \"id\": 3}\n", "none");
  const auto samples = open(o);
  EXPECT_EQ(row(*samples, 0, o).text(), "hell____________");
  EXPECT_EQ(row(*samples, 0, o).learnt(), "ello............");
  EXPECT_EQ(row(*samples, 1, o).text(), "w\xc3\xb6rl___________");
  EXPECT_EQ(row(*samples, 2, o).text(), "hell____________");  // the next epoch
}

TEST_F(Documents, OfAPromptAndItsCompletionTheCompletionIsLearnt) {
  auto o = options(R"({"q": "2+2=", "a": "4."})", "none");
  o.prompt_key = "q", o.completion_key = "a";
  const auto samples = open(o);
  EXPECT_EQ(row(*samples, 0, o).text(), "2+2=4___________");
  EXPECT_EQ(row(*samples, 0, o).learnt(), "...4............");
}

TEST_F(Documents, OfAConversationTheAnswersAreLearntWithTheirEnd) {
  auto o =
      options(R"({"messages": [{"role": "user", "content": " a "}, {"role": "assistant", "content": "b"}, )"
              R"({"role": "user", "content": [{"type": "text", "text": "c"}]}, )"
              R"({"role": "assistant", "content": "d"}]})",
              "none");
  o.context = 160;
  const std::string chatml =
      "<|im_start|>user\n a <|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
      "<|im_start|>assistant\nd<|im_end|>\n";
  auto check = [&](const std::string& text, const std::string& end) {
    const auto samples = open(o);
    const Row found = row(*samples, 0, o);
    EXPECT_EQ(found.text().substr(0, text.size() - 1), text.substr(0, text.size() - 1));
    std::string learnt;
    for (int32_t target : found.targets)
      if (target != -100) learnt += static_cast<char>(target);
    EXPECT_EQ(learnt, "b" + end + "d" + end);
  };
  check(chatml, "<|im_end|>");
  o.chat_template = "llama3";
  o.context = 300;
  check(
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant"
      "<|end_header_id|>\n\nb<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nc<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\nd<|eot_id|>",
      "<|eot_id|>");
}

// Of a conversation what OpenAI's "weight" of 0, or axolotl's "train" of false, takes out is read and not
// learnt.
TEST_F(Documents, OfAConversationAnswersOfNoWeightAreNotLearnt) {
  auto learnt = [&](const std::string& first, const std::string& second) {
    auto o =
        options(str(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b")",
                    first, R"(}, {"role": "assistant", "content": "d")", second, "}]}"),
                "none");
    o.context = 160;
    const auto samples = open(o);
    const Row found = row(*samples, 0, o);
    EXPECT_NE(found.text().find("assistant\nb<|im_end|>\n<|im_start|>assistant\nd<|im_end|>"),
              std::string::npos);
    std::string out;
    for (int32_t target : found.targets)
      if (target != -100) out += static_cast<char>(target);
    return out;
  };
  const std::string b = "b<|im_end|>", d = "d<|im_end|>";
  EXPECT_EQ(learnt("", ""), b + d);
  EXPECT_EQ(learnt(R"(, "weight": 0)", ""), d);
  EXPECT_EQ(learnt(R"(, "weight": 1)", R"(, "weight": 0.0)"), b);
  EXPECT_EQ(learnt(R"(, "train": false)", R"(, "train": true)"), d);
  EXPECT_EQ(learnt(R"(, "training": false)", R"(, "weight": null)"), d);
}

// The same text, cut between prompt and completion at two places, teaches the same: " yes" is one token
// (lattice#1545, trl#5213). What teaches nothing, or the end alone, is counted.
TEST_F(Documents, ATokenAcrossTheBorderOfPromptAndAnswerIsLearnt) {
  auto o = options("", "none");
  o.tokenizer = folder_.write("bpe.json", R"({"added_tokens": [{"id": 5, "content": "</s>", "special": true}],
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "_": 2, "_a": 3, "_ab": 4}, "merges": ["_ a", "_a b"]}})");
  auto targets = [&](const std::string& lines) {
    o.paths = {folder_.write("a.jsonl", lines)};
    const auto samples = open(o);
    return row(*samples, 0, o).targets;
  };
  const auto whole = targets(R"({"prompt": "b", "completion": "_ab"})");
  EXPECT_EQ(std::vector<int32_t>(whole.begin(), whole.begin() + 3), (std::vector<int32_t>{4, 5, -100}));
  EXPECT_EQ(targets(R"({"prompt": "b_", "completion": "ab"})"), whole);
  EXPECT_EQ(targets(R"({"prompt": "b_a", "completion": "b"})"), whole);
  o.eos = "none";
  EXPECT_EQ(targets(R"({"prompt": "b_a", "completion": "b"})")[0], 4);
  o.eos = "auto";
  testing::internal::CaptureStderr();
  targets(
      "{\"prompt\": \"b\", \"completion\": \"_ab\"}\n{\"prompt\": \"b\", \"completion\": \"\"}\n"
      "{\"prompt\": \"a\", \"completion\": \"\"}\n");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(
      said.find(
          "data: 2 of 3 records teach the token that ends a document, and nothing else: is what should be "
          "learnt empty?"),
      std::string::npos)
      << said;
}

// The members of ShareGPT's and of Alpaca's files, as the same conversation in our own words.
TEST_F(Documents, OfOthersFilesAreConversationsToo) {
  auto read = [&](const std::string& line) {
    auto o = options(line, "none");
    o.context = 160;
    const auto samples = open(o);
    const Row found = row(*samples, 0, o);
    return found.text() + "\n" + found.learnt();
  };
  const std::string asked = read(R"({"messages": [{"role": "user", "content": "Add.\n1 2"}, )"
                                 R"({"role": "assistant", "content": "3"}]})");
  EXPECT_NE(asked.find("<|im_start|>user\nAdd.\n1 2<|im_end|>\n<|im_start|>assistant\n3<|im_end|>"),
            std::string::npos)
      << asked;
  EXPECT_EQ(
      read(R"({"conversations": [{"from": "human", "value": "Add.\n1 2"}, {"from": "gpt", "value": "3"}]})"),
      asked);
  EXPECT_EQ(read(R"({"instruction": "Add.", "input": "1 2", "output": "3"})"), asked);
  EXPECT_EQ(read(R"({"instruction": "Add.", "context": "1 2", "response": "3", "category": "sum"})"), asked);
  EXPECT_EQ(read(R"({"instruction": "Add.\n1 2", "input": "", "output": "3"})"), asked);
}

// What a template opens for generation is what stands before an answer in training.
TEST(ChatOpening, IsTheBeginningOfAConversation) {
  for (const auto& name : chat_templates()) {
    DataOptions options;
    options.chat_template = name;
    const Record record = RecordReader(options).read(
        Json::parse(
            R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"},
                        {"role": "assistant", "content": "b"}]})"),
        "here");
    const ChatOpening opening = chat_opening(name, "Be brief.", "a");
    ASSERT_GE(record.parts.size(), 2u);
    EXPECT_EQ(record.parts[0].text, opening.text);
    EXPECT_EQ(record.parts[1].text, "b" + opening.end);
  }
}

// As jinja2 renders them they are what is trained on: "<|im_start|>user\na<|im_end|>\n...", and the trimmed
// one of Llama 3.
TEST(ChatOpening, AsATemplateOfJinja) {
  EXPECT_EQ(chat_jinja("chatml"),
            "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
            "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% "
            "endif %}");
  EXPECT_EQ(
      chat_jinja("llama3"),
      "{{ '<|begin_of_text|>' }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
      "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}");
  EXPECT_EQ(chat_message_token("chatml"), "<|im_start|>");
  EXPECT_EQ(chat_message_token("llama3"), "<|start_header_id|>");
}

TEST_F(Documents, ArePackedApart) {
  const auto o =
      options("{\"text\": \"abcdef\"}\n{\"text\": \"ghijklmnopq\"}\n{\"text\": \"rstuvw\"}\n", "documents");
  const auto samples = open(o);
  const Row first = row(*samples, 0, o);
  EXPECT_EQ(first.text(), "abcdeghijklmnop_");
  EXPECT_EQ(first.learnt(), "bcdefhijklmnopq.");
  EXPECT_EQ(first.documents, (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}));
  EXPECT_EQ(first.positions, (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0}));
  EXPECT_EQ(row(*samples, 1, o).text(), "rstuv___________");
}

TEST_F(Documents, LongerOnesAreCutAndNothingIsLost) {
  const std::string text = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM";
  for (const char* pack : {"documents", "none"}) {
    const auto o = options("{\"text\": \"" + text + "\"}\n", pack);
    const auto samples = open(o);
    std::string learnt;
    for (int i = 0; i < 3; ++i) learnt += row(*samples, i, o).learnt();
    std::erase(learnt, '.');
    EXPECT_EQ(learnt, text.substr(1)) << pack;
  }
}

TEST_F(Documents, AsAStreamTheyFollowOneAnother) {
  const auto o = options("{\"text\": \"abcdefghij\"}\n{\"text\": \"klmnopqrst\"}\n", "stream");
  const auto samples = open(o);
  EXPECT_EQ(row(*samples, 0, o).text(), "abcdefghijklmnop");
  EXPECT_EQ(row(*samples, 0, o).learnt(), "bcdefghijklmnopq");
  EXPECT_EQ(row(*samples, 1, o).text(), "qrs_____________");
}

TEST_F(Documents, WithoutATargetAreLeftOutAndTheLastAreKeptForValidation) {
  std::string lines = "{\"prompt\": \"abc\", \"completion\": \"\"}\n";
  for (char c = 'a'; c < 'e'; ++c) lines += str("{\"prompt\": \"", c, "\", \"completion\": \"", c, "\"}\n");
  auto o = options(lines, "none");
  o.validation = 0.4;  // two of five
  const auto samples = open(o);
  ASSERT_EQ(samples->validation(), 2);
  EXPECT_EQ(row(*samples, 0, o).learnt().substr(0, 2), "a.");
  EXPECT_EQ(row(*samples, 1, o).learnt().substr(0, 2), "b.");
  EXPECT_EQ(row(*samples, 2, o).learnt().substr(0, 2), "a.");
  EXPECT_EQ(row(*samples, 0, o, true).learnt().substr(0, 2), "c.");
  EXPECT_EQ(row(*samples, 1, o, true).learnt().substr(0, 2), "d.");
}

// Of an encoder that sees the whole row there is no place without a token: the rest of a file is left out,
// and so is a row of which nothing is learnt.
TEST_F(Documents, OfWholeRowsSayWhatIsNotLearnt) {
  const auto o = options(
      "{\"text\": \"hello, \"}\n{\"prompt\": \"wide \", \"completion\": \"world of words\"}\n"
      "{\"text\": \"read, not learnt\", \"weight\": 0}\n{\"text\": \"learnt\"}",
      "documents");
  testing::internal::CaptureStderr();
  const auto samples = open_samples(o, {{"ids", DType::i32, {8}}, {"special_tokens_mask", DType::i32, {8}}});
  EXPECT_NE(testing::internal::GetCapturedStderr().find("1 row has no token to learn"), std::string::npos);
  std::string rows;
  for (int64_t i = 0; i < 6; ++i) {
    int32_t ids[8], unlearnt[8];
    samples->fill(i, 1, 0, 1, {ids, unlearnt});
    for (int32_t id : ids) rows += static_cast<char>(id);
    for (int32_t is : unlearnt) rows += is ? '1' : '0';
    rows += '|';
  }
  EXPECT_EQ(rows,
            "hello, w00000001|ide worl11110000|d of wor00000000|dsread, 00111111|ntlearnt11000000|"
            "hello, w00000001|");
}

// Of an encoder and a decoder: what is given, and the last answer behind it.
TEST_F(Documents, AsPairsAreGivenAndLearnt) {
  auto o = options(
      "{\"prompt\": \"2+2=\", \"completion\": \"four\"}\n{\"text\": \"left out\"}\n"
      "{\"prompt\": \"too long a prompt\", \"completion\": \"and its answer\"}\n"
      "{\"prompt\": \"kept\", \"completion\": \"x\"}\n",
      "documents");
  o.validation = 0.25;
  const auto samples = open_samples(
      o, {{"ids", DType::i32, {6}}, {"decoder_ids", DType::i32, {5}}, {"targets", DType::i32, {5}}});
  EXPECT_EQ(samples->validation(), 1);
  EXPECT_EQ(samples->counts(),
            (std::pair<std::string, std::string>{"pairs", "2 for training, 1 for validation"}));
  auto shown = [&](int64_t i, bool validation) {
    int32_t ids[6], decoder[5], targets[5];
    if (validation)
      samples->fill_validation(i, 1, {ids, decoder, targets});
    else
      samples->fill(i, 1, 0, 1, {ids, decoder, targets});
    std::string out;
    for (auto side : {std::span<int32_t>(ids), std::span<int32_t>(decoder), std::span<int32_t>(targets)}) {
      for (int32_t id : side) out += id == -100 ? '.' : id == 0 ? '_' : static_cast<char>(id);
      out += '|';
    }
    return out;
  };
  EXPECT_EQ(shown(0, false), "2+2=__|_four|four.|");
  EXPECT_EQ(shown(1, false), "too lo|_and |and i|");
  EXPECT_EQ(shown(0, true), "kept__|_x___|x....|");
  EXPECT_EQ(shown(2, false), shown(0, false));
}

// With a tokenizer the answer has its end, and <pad> stands in front of it and behind.
TEST_F(Documents, AsPairsEndWithTheTokenizersEnd) {
  auto o = options(R"({"prompt": "ab", "completion": "ba"})", "documents");
  o.tokenizer = folder_.write("t.json", R"({"added_tokens": [
      {"id": 2, "content": "</s>", "special": true, "normalized": false},
      {"id": 3, "content": "<pad>", "special": true, "normalized": false}],
      "model": {"type": "Unigram", "unk_id": null, "vocab": [["a", -1], ["b", -1]]}})");
  const auto samples = open_samples(
      o, {{"ids", DType::i32, {4}}, {"decoder_ids", DType::i32, {4}}, {"targets", DType::i32, {4}}});
  int32_t ids[4], decoder[4], targets[4];
  samples->fill(0, 1, 0, 1, {ids, decoder, targets});
  EXPECT_EQ(std::vector<int32_t>(ids, ids + 4), (std::vector<int32_t>{0, 1, 3, 3}));
  EXPECT_EQ(std::vector<int32_t>(decoder, decoder + 4), (std::vector<int32_t>{3, 1, 0, 2}));
  EXPECT_EQ(std::vector<int32_t>(targets, targets + 4), (std::vector<int32_t>{1, 0, 2, -100}));
}

TEST_F(Documents, FollowFromTheirNumberAlone) {
  std::string lines;
  for (int i = 0; i < 300; ++i)
    lines += str("{\"text\": \"", std::string(3 + i * 7 % 40, static_cast<char>('a' + i % 26)), "\"}\n");
  auto o = options(lines, "documents");
  o.order = "shuffle", o.seed = 5;
  const auto samples = open(o), again = open(o);
  constexpr int64_t kGlobal = 12;
  auto read = [&](const Samples& of, int64_t step, int64_t first, int64_t count) {
    std::vector<int32_t> out[4];
    std::vector<void*> to;
    for (auto& field : out) field.resize(static_cast<size_t>(count * o.context)), to.push_back(field.data());
    of.fill(step, kGlobal, first, count, to);
    return out[0];
  };
  for (int64_t step : {0, 3, 50}) {
    const auto whole = read(*samples, step, 0, kGlobal);
    for (int64_t ranks : {1, 2, 3, 4}) {
      std::vector<int32_t> parts;
      for (int64_t r = 0; r < ranks; ++r) {
        const auto part = read(*again, step, r * kGlobal / ranks, kGlobal / ranks);
        parts.insert(parts.end(), part.begin(), part.end());
      }
      EXPECT_EQ(parts, whole);
    }
  }
}

TEST(Packing, FillsRowsAndLosesNothing) {
  constexpr int64_t kContext = 100;
  PackedPieces rows(kContext);
  int64_t inputs = 0;
  uint64_t random = 1;
  for (int64_t i = 0; i < 5000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const auto count = static_cast<int32_t>(1 + (random >> 40) % kContext);
    rows.packed({i * 1000, 0, count});
    inputs += count;
  }
  rows.finish();
  EXPECT_EQ(rows.inputs(), inputs);
  std::set<int64_t> seen;
  int64_t found = 0;
  for (int64_t row = 0; row < rows.size(); ++row) {
    int64_t here = 0;
    for (const auto* piece = rows.begin(row); piece != rows.end(row); ++piece) {
      here += piece->count;
      EXPECT_TRUE(seen.insert(piece->begin).second);
    }
    EXPECT_GT(here, 0);
    EXPECT_LE(here, kContext);
    found += here;
  }
  EXPECT_EQ(found, inputs);
  EXPECT_GT(static_cast<double>(inputs) / static_cast<double>(rows.size() * kContext), 0.97);
}

TEST(Packing, OfNothingHasNoRows) {
  PackedPieces rows(4);
  rows.finish();
  EXPECT_EQ(rows.size(), 0);
}

}  // namespace
}  // namespace lockstep::launcher::data
