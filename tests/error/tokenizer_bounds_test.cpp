// Tokenizer files that would break what reads with them: tables with bytes that are no text, steps that
// multiply a text, tokens of a megabyte, a stop while it goes on.
#include <sodium.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>

#include "launcher/data/documents/document_samples.h"
#include "launcher/data/tokenizer/stop.h"
#include "tests/error/tokenizer_refusals.h"
#include "tests/support/slowness.h"

namespace lockstep::launcher::data {
namespace {

// A table of SentencePiece with one entry, "a", as its double array has it.
std::string charsmap(const std::string& stands_for, uint32_t value = 0) {
  std::vector<uint32_t> units(1024, 0);
  units[0] = 256 << 10;
  units[256 ^ 'a'] = 512 << 10 | 1 << 8 | 'a';
  units[256 ^ 'a' ^ 512] = 0x80000000 | value;
  std::string bytes(4 + units.size() * 4, '\0');
  const auto size = static_cast<uint32_t>(units.size() * 4);
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, units.data(), size);
  bytes += stands_for + '\0';
  std::string out(sodium_base64_ENCODED_LEN(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  out.pop_back();
  return out;
}

// What comes out of a table goes unseen into PCRE2, which reads beyond its own tables on what is not UTF-8.
TEST_F(TokenizerErrors, TablesOfNormalForms) {
  auto table = [&](const std::string& stands_for, uint32_t value = 0) {
    return with("normalizer",
                {{"type", "Precompiled"}, {"precompiled_charsmap", charsmap(stands_for, value)}});
  };
  EXPECT_EQ(refusal(table("b")), "no error");
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode("ab"), (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(refusal(table("\u00e9")), "no error");
  for (const char* bytes : {"\xf0", "\xc0", "\xff", "\x80", "\xf4\x90\x80\x80", "b\xed\xa0\x80", "\xc3"})
    expect_says(table(bytes), "normalizer: precompiled_charsmap: its texts are not UTF-8 from byte ");
  expect_says(table("\u00e9", 1),
              "precompiled_charsmap: the entry at unit 353 begins within a character of UTF-8");
  expect_says(table("b", 2),
              "precompiled_charsmap: the entry at unit 353 lies beyond the table; is the file whole?");
  expect_says(table("b", 0x7fffffff), "lies beyond the table");
}

// The same of a model of SentencePiece, whose library follows the table wherever it leads.
TEST_F(TokenizerErrors, TablesOfModelsOfSentencePiece) {
  std::stringstream read;
  read << std::ifstream(TOKENIZERS "/sp_unigram.model", std::ios::binary).rdbuf();
  const std::string whole = read.str();
  auto broken = [&](size_t at, const std::string& bytes) {
    std::string out = whole;
    out.replace(at, bytes.size(), bytes);
    return refusal_of(folder_.write("t.model", out));
  };
  EXPECT_EQ(broken(0, ""), "no error");
  // A table is a length of four bytes, a multiple of 1024 here, and then units; the first one leads to a
  // block.
  const size_t table = whole.find(std::string("\0\x04\0\0", 4));
  ASSERT_NE(table, std::string::npos);
  expect_words(broken(table + 4, std::string("\0\xfc\xff\x7f", 4)),
               "t.model: precompiled_charsmap: unit 0 leads beyond the table; is the file whole?");
  expect_words(broken(table, "\xff\xff\xff\x7f"),
               "precompiled_charsmap is no table of SentencePiece; is the file whole?");
  expect_words(broken(table + 4 + 1024, "\xff"),
               "precompiled_charsmap: its texts are not UTF-8 from byte 0 on");
}

// Steps that multiply: a text may become as long as normal forms make it, and not much longer.
TEST_F(TokenizerErrors, NormalizersThatMultiply) {
  auto replace = [](const std::string& by) {
    return json{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", by}};
  };
  auto failure = [&](const json& normalizer, const std::string& text) -> std::string {
    EXPECT_EQ(refusal(with("normalizer", normalizer)), "no error");
    try {
      Tokenizer(folder_.path("t.json")).encode(text);
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  };
  const std::string text(2000, 'a');
  json steps = json::array();
  for (int i = 0; i < 6; ++i) steps.push_back(replace(std::string(64, 'a')));
  const std::string said = failure({{"type", "Sequence"}, {"normalizers", steps}}, text);
  expect_words(said,
               "t.json: normalizer makes 72128 bytes or more of a text of 2000, and up to 72096 are taken; "
               "use a tokenizer that does not multiply its text, or take the step out of the file");
  expect_words(failure(replace(std::string(1000000, 'a')), text), "bytes or more of a text of 2000");
  expect_words(failure({{"type", "Prepend"}, {"prepend", std::string(1000000, 'a')}}, text),
               "a text of 2000");
  expect_words(
      failure({{"type", "Precompiled"}, {"precompiled_charsmap", charsmap(std::string(100000, 'b'))}}, text),
      "a text of 2000");
  EXPECT_EQ(failure(replace("bbb"), text), "no error");
  // The longest normal form there is: 33 bytes of 3.
  std::string long_form;
  for (int i = 0; i < 100; ++i) long_form += "\ufdfa";
  expect_words(failure({{"type", "NFKD"}}, long_form), "has no token for");
  // Decoders, by token.
  json decoders = json::array();
  for (int i = 0; i < 6; ++i) decoders.push_back(replace(std::string(64, 'a')));
  EXPECT_EQ(refusal(with("decoder", {{"type", "Sequence"}, {"decoders", decoders}})), "no error");
  const Tokenizer multiplies(folder_.path("t.json"));
  const int32_t a = 0;
  try {
    multiplies.decode({&a, 1});
    ADD_FAILURE() << "decoded";
  } catch (const UserError& error) { expect_words(error.what(), "decoder makes "); }
}

// Of a model Unigram.
json rows(const std::vector<std::pair<std::string, double>>& tokens) {
  json out = json::array();
  for (const auto& [token, score] : tokens) out.push_back(json::array({token, score}));
  return out;
}

// Each takes a moment where it took minutes: what is found in a text is found in one pass, however long it
// is.
TEST_F(TokenizerErrors, LongTokensAreFoundInOnePass) {
  const auto began = std::chrono::steady_clock::now();
  const std::string longest(300000, 'a'), text = std::string(100000, 'a') + "b";
  json unigram =
      with("model", {{"type", "Unigram"},
                     {"unk_id", 0},
                     {"vocab", rows({{"<unk>", 0.0}, {longest, -1.0}, {"a", -2.0}, {"b", -2.0}})}});
  unigram["added_tokens"] = json::array();
  EXPECT_EQ(refusal(unigram), "no error");
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode(text).size(), text.size());
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode(longest), std::vector<int32_t>{1});
  json pieces = with("model", {{"type", "WordPiece"},
                               {"vocab", {{"!", 0}, {"a", 1}, {"##a", 2}, {"##b", 3}, {"##" + longest, 4}}},
                               {"unk_token", "!"},
                               {"continuing_subword_prefix", "##"},
                               {"max_input_chars_per_word", int64_t{1} << 62}});
  pieces["added_tokens"] = json::array();
  EXPECT_EQ(refusal(pieces), "no error");
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode(text).size(), text.size());
  json added = small();
  added["added_tokens"] = json::array();
  for (int i = 0; i < 50000; ++i)
    added["added_tokens"].push_back(
        {{"id", 1000 + i}, {"content", std::string(static_cast<size_t>(i % 200 + 2), 'a') + str(i)}});
  added["added_tokens"].push_back({{"id", 900}, {"content", longest + "b"}});
  EXPECT_EQ(refusal(added), "no error");
  const Tokenizer many(folder_.path("t.json"));
  EXPECT_EQ(many.encode(text).size(), text.size() - 1);  // ab at its end
  EXPECT_EQ(many.encode("baaa1b"), (std::vector<int32_t>{1, 1001, 1}));
  EXPECT_LT(std::chrono::steady_clock::now() - began, kSlowness * std::chrono::seconds(10));
}

// A process that is asked to stop leaves what it tokenizes, within a piece, between pieces and between lines.
TEST_F(TokenizerErrors, ReadingStopsWhenItIsAsked) {
  json unigram =
      with("model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", rows({{"<unk>", 0.0}, {"a", -2.0}})}});
  unigram["added_tokens"] = json::array();
  EXPECT_EQ(refusal(unigram), "no error");
  const Tokenizer one_piece(folder_.path("t.json"));
  EXPECT_EQ(refusal(with("pre_tokenizer", {{"type", "WhitespaceSplit"}})), "no error");
  const Tokenizer pieces(folder_.path("t.json"));
  DataOptions options{.kind = "jsonl", .paths = {folder_.write("a.jsonl", "{\"text\": \"abab\"}\n")}};
  options.pack = "none", options.context = 8;
  const std::vector<SampleField> fields = {{"ids", DType::i32, {8}}, {"targets", DType::i32, {8}}};
  const std::string text(200000, 'a');
  stop_reading_when([] { return true; });
  EXPECT_THROW(one_piece.encode(text), Stopped);
  EXPECT_THROW(pieces.encode("a b"), Stopped);
  EXPECT_THROW(document_samples(options, fields), Stopped);
  stop_reading_when([] { return false; });
  EXPECT_EQ(pieces.encode("a b").size(), 2u);
  EXPECT_NO_THROW(document_samples(options, fields));
  stop_reading_when(nullptr);
  EXPECT_EQ(one_piece.encode("aa").size(), 2u);
}

// A text of one piece for byte pair encoding: it asks at each 65,536th symbol, and at each 65,536th merge.
TEST_F(TokenizerErrors, MergingOfALongPieceAsksWhetherToStop) {
  json file = small();
  file["added_tokens"] = json::array();
  EXPECT_EQ(refusal(file), "no error");
  const Tokenizer one_piece(folder_.path("t.json"));
  static int asked = 0;
  constexpr size_t kPairs = 4 * 65536;
  std::string merged;
  for (size_t i = 0; i < kPairs; ++i) merged += "ab";
  const auto asks = [&](const std::string& text, size_t tokens) {
    asked = 0;
    EXPECT_EQ(one_piece.encode(text).size(), tokens);
    return asked;
  };
  stop_reading_when([] { return ++asked < 0; });
  const int of_symbols = asks(std::string(2 * kPairs, 'a'), 2 * kPairs);
  EXPECT_GE(of_symbols, 15);
  EXPECT_EQ(asks(merged, kPairs) - of_symbols, 4);
  stop_reading_when(nullptr);
}

}  // namespace
}  // namespace lockstep::launcher::data
