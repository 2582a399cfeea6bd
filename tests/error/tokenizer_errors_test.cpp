// Tokenizer files that are not read: each refusal on its words.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "launcher/data/dataset.h"
#include "launcher/data/tokenizer/end_token.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

using nlohmann::json;

class TokenizerErrors : public testing::Test {
 protected:
  // A whole tokenizer of characters a, b, ab.
  static json small() {
    return json::parse(
        R"({"added_tokens": [{"id": 3, "content": "<end>", "special": true, "normalized": false}],
      "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
      "model": {"type": "BPE", "unk_token": null, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  }
  std::string refusal(const json& file) { return refusal_of(folder_.write("t.json", file.dump())); }
  static std::string refusal_of(const std::string& path) {
    try {
      Tokenizer{path};
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  }
  static std::string data_refusal(const DataOptions& options) {
    try {
      Dataset{options};
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  }
  void expect_says(const json& file, const std::string& words) { expect_words(refusal(file), words); }
  static void expect_words(const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message << "\ndoes not say: " << words;
  }
  // The file with a member replaced: with("model/type", "Unigram").
  static json with(const std::string& at, const json& value) {
    json out = small();
    out[json::json_pointer("/" + at)] = value;
    return out;
  }
  ScratchFolder folder_;
};

TEST_F(TokenizerErrors, TheSmallOneIsRead) {
  EXPECT_EQ(refusal(small()), "no error");
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode("ab<end>b"), (std::vector<int32_t>{2, 3, 1}));
}

TEST_F(TokenizerErrors, FilesThatAreNone) {
  expect_words(refusal_of(folder_.path("no.json")), "data.tokenizer: cannot read " + folder_.path("no.json"));
  expect_words(refusal_of(folder_.path("no.json")),
               "name a tokenizer.json of Hugging Face, a tokenizer.model of SentencePiece, or bytes");
  expect_words(refusal_of(folder_.write("t.model", "no model")), "t.model is no model of SentencePiece");
  expect_words(refusal_of(folder_.write("t.model", "")), "t.model is no model of SentencePiece");
  expect_words(refusal_of(folder_.write("x.json", "{\"model\": ")),
               "x.json: line 1, column 11: this is not JSON: ");
  expect_words(refusal_of(folder_.write("x.json", "[]")), "holds array, and a tokenizer.json is an object");
  std::string deep = "0";
  for (int i = 0; i < 70; ++i) deep = "[" + deep + "]";
  expect_words(refusal_of(folder_.write("x.json", "{\"a\": " + deep + "}")),
               "x.json: line 1, column 70: nested deeper than 64 lists and sections; name a tokenizer.json "
               "of Hugging Face, ");
  expect_words(refusal_of(folder_.write("x.json", "{}")),
               "\"model\" is not there, and should be an object; is this a tokenizer.json of Hugging Face?");
}

TEST_F(TokenizerErrors, Models) {
  expect_says(with("model/type", "WordLevel"),
              "model is WordLevel, and BPE (gpt2, llama, qwen, mistral, gemma), Unigram (t5, xlm-roberta, "
              "albert) and WordPiece (bert) are read: tokenize elsewhere, and use data.kind tokens");
  auto pieces = [&](const json& vocab, const char* unk) {
    json file = with(
        "model",
        {{"type", "WordPiece"}, {"vocab", vocab}, {"unk_token", unk}, {"continuing_subword_prefix", "##"}});
    file["added_tokens"] = json::array();
    return file;
  };
  EXPECT_EQ(refusal(pieces({{"[UNK]", 0}, {"a", 1}, {"##b", 2}}, "[UNK]")), "no error");
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode("abb"), (std::vector<int32_t>{1, 2, 2}));
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode("abc"), std::vector<int32_t>{0});
  expect_says(pieces({{"a", 1}}, "[UNK]"), "unk_token is [UNK], which its vocabulary does not have");
  expect_says(pieces({{"[UNK]", 0.5}}, "[UNK]"),
              "the token [UNK] has the id 0.5, which is none; ids are whole numbers");
  auto unigram = [&](const json& rows, const json& unk) {
    json file = with("model", {{"type", "Unigram"}, {"vocab", rows}, {"unk_id", unk}});
    file["added_tokens"] = json::array();
    return file;
  };
  const json rows = json::parse(R"([["<unk>", 0], ["a", -1.5]])");
  EXPECT_EQ(refusal(unigram(rows, 0)), "no error");
  EXPECT_EQ(Tokenizer(folder_.path("t.json")).encode("axya"), (std::vector<int32_t>{1, 0, 1}));
  expect_says(unigram(rows, 2), "model: unk_id is 2, and \"vocab\" has 2 rows");
  expect_says(unigram(json::parse(R"([["a", "b"]])"), 0),
              "model: the row 0 of \"vocab\" is [\"a\",\"b\"], and should be a token and a number");
  expect_says(unigram(json::array(), nullptr), "model: \"vocab\" is empty");
  EXPECT_EQ(refusal(unigram(rows, nullptr)), "no error");
  EXPECT_THROW(Tokenizer(folder_.path("t.json")).encode("ax"), UserError);
  expect_says(with("model/end_of_word_suffix", "</w>"),
              "model has \"end_of_word_suffix\": \"</w>\", which is not read");
  expect_says(with("model/dropout", 0.1),
              "model has \"dropout\": 0.1, which draws tokens at random; set it to null in the file");
  expect_says(with("model/vocab/c", -1), "the token c has the id -1, which is none; ids are whole numbers");
  expect_says(with("model/byte_fallback", true),
              "has \"byte_fallback\" and not all of <0x00> ... <0xFF> in its vocabulary");
  expect_says(with("model/unk_token", "<unk>"), "unk_token is <unk>, which its vocabulary does not have");
  expect_says(with("model/merges", {"a c"}),
              "merge 0 is \"a c\", and the vocabulary has no c; the file is cut short, or of two tokenizers");
  expect_says(with("model/merges", {"ab"}), "merge 0 is \"ab\", and should be two tokens");
  expect_says(with("model/merges", {"b a"}), "and the vocabulary has no ba");
  expect_says(with("model/vocab/c", 1 << 27),
              "the token c has the id 134217728, and ids up to 4194304 are read");
}

TEST_F(TokenizerErrors, Members) {
  expect_says(
      with("normalizer", {{"type", "ByteLevel"}}),
      "normalizer is ByteLevel, which is not read; NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace");
  for (const char* table : {"", "AAAA", "!", "BAAAAAA="})
    expect_says(with("normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", table}}),
                "normalizer: precompiled_charsmap is no table of SentencePiece; is the file whole?");
  expect_says(with("pre_tokenizer", {{"type", "UnicodeScripts"}}),
              "pre_tokenizer is UnicodeScripts, which is not read; ByteLevel, Split, Metaspace, Digits");
  expect_says(
      with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Kept"}}),
      "the behavior Kept is none of Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
  const json digits = {{"type", "Digits"}}, bytes = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  expect_says(with("pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {digits, bytes}}}),
              "ByteLevel with add_prefix_space adds text behind a pre-tokenizer that cuts");
  expect_says(
      with("pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}),
      "prepend_scheme is last, none of always, first, never");
  expect_says(with("decoder", {{"type", "CTC"}}),
              "decoder is CTC, which is not read; ByteLevel, Metaspace, ByteFallback, Fuse, Replace");
  expect_says(with("post_processor", {{"type", "Odd"}}),
              "post_processor is Odd, which is not read; TemplateProcessing, RobertaProcessing");
  expect_says(with("added_tokens/0/id", 0.5), "added_tokens: \"id\" is number, and should be a whole number");
  expect_says(with("added_tokens/0/id", -4), "added_tokens: <end> has the id -4, which is none");
  expect_says(with("added_tokens/0/id", 1 << 27), "the token <end> has the id 134217728, and ids up to");
  expect_says(with("added_tokens/0/content", "ab"),
              "added_tokens: ab has the id 3, and 2 in the vocabulary; the file is of two tokenizers");
}

TEST_F(TokenizerErrors, Expressions) {
  auto cut = [&](const std::string& expression) {
    return with("pre_tokenizer",
                {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}});
  };
  expect_says(cut("(a"), "pre_tokenizer: the expression (a is none: ");
  expect_says(cut("^a"), "the expression ^a has ^, which means lines; use a tokenizer whose expressions");
  expect_says(cut("\\ba"), "has \\b, which is not read");
  expect_says(cut("[a&&b]"), "intersects classes (&&)");
  expect_says(cut("[a[b]]"), "nests classes");
  expect_says(cut("[[:alpha"), "has a class that does not end");
  expect_says(cut("a{2}+"), "has }+, which two dialects read in two ways");
  EXPECT_EQ(refusal(cut("[^\\r\\n\\p{L}\\p{N}]?+\\p{Lu}+|\\s+(?!\\S)|[[:alpha:]]|[]a]|\\w{1,3}")),
            "no error");
  json empty = cut("a");
  empty["pre_tokenizer"]["pattern"] = {{"String", ""}};
  expect_says(empty, "an empty text to split at");
}

// An expression that takes for ever on a text ends with words, not with a run that hangs.
TEST_F(TokenizerErrors, ExpressionThatFailsOnItsText) {
  json file = with("pre_tokenizer",
                   {{"type", "Split"}, {"pattern", {{"Regex", "(a+)+[bc]"}}}, {"behavior", "Isolated"}});
  const Tokenizer tokenizer(folder_.write("t.json", file.dump()));
  try {
    tokenizer.encode(std::string(40, 'a') + "d");
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) { expect_words(error.what(), "an expression failed on the text: "); }
}

TEST_F(TokenizerErrors, Texts) {
  const Tokenizer tokenizer(folder_.write("t.json", small().dump()));
  auto error = [&](const std::string& text) -> std::string {
    try {
      tokenizer.encode(text);
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  };
  expect_words(error("abc"),
               "has no token for \"c\", no unk_token and no byte_fallback; use a tokenizer that");
  expect_words(error("ab\xff"), "the text is not UTF-8 from byte 2 on; write it as UTF-8 (iconv -t utf-8)");
}

TEST_F(TokenizerErrors, OfData) {
  folder_.write("t.json", small().dump());
  DataOptions options{.paths = {folder_.write("a.txt", "abababab")},
                      .tokenizer = folder_.path("t.json"),
                      .vocab = 4,
                      .context = 2};
  EXPECT_EQ(data_refusal(options), "no error");
  options.vocab = 3;
  expect_words(data_refusal(options), str("model.vocab is 3, and ", folder_.path("t.json"),
                                          " (data.tokenizer) has 4 ids; set model.vocab to 4 or more, as to "
                                          "the next multiple of 64, 64"));
  options.vocab = 4, options.eos = "<stop>";
  expect_words(data_refusal(options), "data.eos is \"<stop>\", and " + folder_.path("t.json") +
                                          " has no such token; name one that it has, auto or none");
  options.eos = "<end>";
  EXPECT_EQ(data_refusal(options), "no error");
  folder_.write("a.txt", "abab\xc3(");
  expect_words(data_refusal(options),
               "a.txt is not UTF-8 at byte 4, and a tokenizer reads UTF-8; convert it "
               "(iconv -t utf-8), or train on its bytes with data.tokenizer bytes");
}

}  // namespace
}  // namespace lockstep::launcher::data
