// Tokenizers against the ids of the package tokenizers: tokenizer/ holds them, and the script that made them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/json.h"
#include "core/base/text.h"
#include "launcher/data/tokenizer/end_token.h"
#include "launcher/data/tokenizer/tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

// cases.json of check.py, pieces.json of pieces.py or wordpiece.json of wordpiece.py: that which has the
// tokenizer.
const nlohmann::json& cases_of(const std::string& name) {
  static const auto read = nlohmann::json::parse(std::ifstream(TOKENIZERS "/cases.json")),
                    pieces = nlohmann::json::parse(std::ifstream(TOKENIZERS "/pieces.json")),
                    words = nlohmann::json::parse(std::ifstream(TOKENIZERS "/wordpiece.json"));
  for (const auto* each : {&read, &pieces})
    if ((*each)["tokenizers"].contains(name)) return *each;
  return words;
}
std::string file_of(const std::string& name) {
  return str(TOKENIZERS, "/", name, name.find('.') == std::string::npos ? ".json" : "");
}

class TokenizerIds : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerIds, AreThoseOfThePackage) {
  const Tokenizer tokenizer(file_of(GetParam()));
  const auto& want = cases_of(GetParam())["tokenizers"][GetParam()];
  const auto& texts = cases_of(GetParam())["texts"];
  ASSERT_GT(texts.size(), 60u);
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer.encode(texts[i].get<std::string>()), want["ids"][i].get<std::vector<int32_t>>())
        << texts[i];
}

TEST_P(TokenizerIds, DecodeToTheTextOfThePackage) {
  const Tokenizer tokenizer(file_of(GetParam()));
  const auto& want = cases_of(GetParam())["tokenizers"][GetParam()];
  for (size_t i = 0; i < want["ids"].size(); ++i)
    EXPECT_EQ(tokenizer.decode(want["ids"][i].get<std::vector<int32_t>>()),
              want["decoded"][i].get<std::string>());
}

TEST_P(TokenizerIds, WhatIsPutAroundATextIsThatOfThePackage) {
  const Tokenizer tokenizer(file_of(GetParam()));
  const auto& around = cases_of(GetParam())["tokenizers"][GetParam()]["around"];
  std::vector<int32_t> ids = tokenizer.before();
  for (int32_t id : tokenizer.encode("a")) ids.push_back(id);
  ids.insert(ids.end(), tokenizer.behind().begin(), tokenizer.behind().end());
  EXPECT_EQ(ids, around[0].get<std::vector<int32_t>>());
}

// A text in parts has the tokens of the whole; each token is of the part in which it begins.
TEST_P(TokenizerIds, OfPartsAreThoseOfTheWhole) {
  const Tokenizer tokenizer(file_of(GetParam()));
  const std::vector<std::string> parts = {"user\n", "\nHello wor", "",     "ld  <tool> ",
                                          " and e", "s 12",        "345\n"};
  std::string whole;
  for (const auto& part : parts) whole += part;
  std::vector<int32_t> ids;
  int last = 0;
  for (const auto& token : tokenizer.encode_parts(parts)) {
    ids.push_back(token.id);
    EXPECT_GE(token.part, last);
    last = token.part;
  }
  EXPECT_EQ(ids, tokenizer.encode(whole));
  // "345" may be one token with "12", and the white space behind it be taken off by a normalizer.
  EXPECT_GE(last, 5);
}

INSTANTIATE_TEST_SUITE_P(Styles, TokenizerIds,
                         testing::Values("gpt2", "llama3", "qwen", "llama2", "gemma", "sp_unigram.model",
                                         "sp_bytes.model", "sp_plain.model", "unigram.json", "words.json",
                                         "accents.json", "bert.json", "bert_cased.json"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

// Matches of nothing cut, letters that stand for bytes are tokens of every model: cuts.py made what is kept.
TEST(Tokenizer, CutsWhereThePackageDoes) {
  const auto kept = nlohmann::json::parse(std::ifstream(TOKENIZERS "/cuts.json"));
  ASSERT_GT(kept["tokenizers"].size(), 100u);
  ScratchFolder folder;
  for (const auto& one : kept["tokenizers"]) {
    const Tokenizer tokenizer(folder.write("t.json", one["file"].dump()));
    for (size_t i = 0; i < kept["texts"].size(); ++i) {
      const auto text = kept["texts"][i].get<std::string>();
      const auto ids = tokenizer.encode(text);
      EXPECT_EQ(ids, one["ids"][i].get<std::vector<int32_t>>()) << kept["texts"][i] << one["file"];
      EXPECT_EQ(tokenizer.decode(ids), one["decoded"][i].get<std::string>()) << one["file"];
      // In two parts the tokens are the same, and none of the second begins in front of its border.
      const size_t border = text.empty() ? 0 : text.size() - 1;
      if (border == 0 || (static_cast<unsigned char>(text[border]) & 0x80)) continue;
      std::vector<int32_t> joined;
      int last = 0;
      const std::vector<std::string> parts = {text.substr(0, border), text.substr(border)};
      for (const auto& token : tokenizer.encode_parts(parts)) {
        joined.push_back(token.id);
        EXPECT_GE(token.part, last) << one["file"];
        last = token.part;
      }
      EXPECT_EQ(joined, ids) << kept["texts"][i] << one["file"];
    }
  }
}

// A byte that is of a part is a token of that part, though two bytes spell it.
TEST(Tokenizer, LettersOfBytesKeepTheirParts) {
  ScratchFolder folder;
  const Tokenizer tokenizer(
      folder.write("t.json", R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
      "use_regex": false}, "model": {"type": "WordPiece", "unk_token": "u", "continuing_subword_prefix": "",
      "vocab": {"u": 0, "a": 1, "\u00c3\u00a9": 2, "b": 3, "\u0120": 4}}})"));
  std::vector<std::pair<int32_t, int>> found;
  const std::vector<std::string> parts = {"a\xc3\xa9", " ", "b"};
  for (const auto& token : tokenizer.encode_parts(parts)) found.emplace_back(token.id, token.part);
  EXPECT_EQ(found, (std::vector<std::pair<int32_t, int>>{{1, 0}, {2, 0}, {4, 1}, {3, 2}}));
}

TEST(Tokenizer, SaysWhichPartATokenBeginsIn) {
  const Tokenizer tokenizer(file_of("qwen"));
  const std::vector<std::string> parts = {"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "Hello",
                                          "<|im_end|>", "\n"};
  std::string counted;
  for (const auto& token : tokenizer.encode_parts(parts))
    if (token.part == 1 || token.part == 2) counted += tokenizer.decode(std::vector{token.id});
  EXPECT_EQ(counted, "Hello<|im_end|>");
}

// The same text in two parts, cut at two places: a token that holds a byte of a part that is learnt is learnt
// (areal-project/AReaL#1427, huggingface/trl#5213). `bpe` has " yes" as one token.
TEST(Tokenizer, ATokenAcrossABorderIsLearnt) {
  const nlohmann::json bpe = {
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", "--"}}}, {"content", "-"}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", {{"a", 0}, {"b", 1}, {"-", 2}, {"ab", 3}, {"-a", 4}, {"-ab", 5}, {"b-", 6}}},
        {"merges", {"a b", "- ab", "b -"}}}}};
  ScratchFolder folder;
  const Tokenizer tokenizer(folder.write("t.json", bpe.dump()));
  auto learnt = [&](const std::vector<std::string>& parts, const std::vector<bool>& flags) {
    std::string out;
    for (const auto& token : tokenizer.encode_parts(parts, flags))
      out += str(token.id, token.learnt ? "+ " : " ");
    return out;
  };
  EXPECT_EQ(learnt({"b-", "ab"}, {false, true}), "1 5+ ");
  EXPECT_EQ(learnt({"b", "-ab"}, {false, true}), "1 5+ ");
  EXPECT_EQ(learnt({"b-a", "b"}, {false, true}), "1 5+ ");
  EXPECT_EQ(learnt({"ba", "b-", "a"}, {false, true, false}), "1 3+ 2+ 0 ");
  EXPECT_EQ(learnt({"a", "", "b"}, {false, true, false}), "3 ");  // a part without a byte is in no token
  EXPECT_EQ(learnt({"ab-", "-ab"}, {false, true}), "3 5+ ");      // replaced across the border
  EXPECT_EQ(learnt({"ab-", "-"}, {false, true}), "3 2+ ");
  EXPECT_EQ(learnt({"ab-", "-", "ab"}, {true, false, false}), "3+ 5+ ");
  EXPECT_EQ(learnt({"ab", "ab"}, {false, false}), "3 3 ");
}

// A letter and its accent in two parts are one character of the normal form, as in the whole text.
TEST(Tokenizer, ACharacterAcrossABorderIsLearnt) {
  const nlohmann::json bpe = {{"normalizer", {{"type", "NFC"}}},
                              {"model",
                               {{"type", "BPE"},
                                {"vocab", {{"e", 0}, {"\u00e9", 1}, {"x", 2}, {"\uac01", 3}}},
                                {"merges", nlohmann::json::array()}}}};
  ScratchFolder folder;
  const Tokenizer tokenizer(folder.write("t.json", bpe.dump()));
  auto learnt = [&](const std::vector<std::string>& parts, const std::vector<bool>& flags) {
    std::string out;
    for (const auto& token : tokenizer.encode_parts(parts, flags))
      out += str(token.id, token.learnt ? "+ " : " ");
    return out;
  };
  EXPECT_EQ(learnt({"xe", "\u0301x"}, {false, true}), "2 1+ 2+ ");
  EXPECT_EQ(learnt({"x", "e\u0301x"}, {false, true}), "2 1+ 2+ ");
  EXPECT_EQ(learnt({"xe", "\u0301x"}, {true, false}), "2+ 1+ 2 ");
  EXPECT_EQ(learnt({"xe", "\u0301", "x"}, {false, true, false}), "2 1+ 2 ");
  EXPECT_EQ(learnt({"e", "\u0301"}, {false, true}), "1+ ");
  EXPECT_EQ(learnt({"\u1100", "\u1161", "\u11a8"}, {false, false, true}), "3+ ");
}

// What a model of SentencePiece knows: its own symbols, and what a tokenizer_config.json beside it asks for.
TEST(Tokenizer, OfSentencePiece) {
  const Tokenizer tokenizer(file_of("sp_unigram.model"));
  const std::vector<std::string> parts = {"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "Hello",
                                          "<|im_end|>", "\n"};
  std::string counted;
  for (const auto& token : tokenizer.encode_parts(parts))
    if (token.part == 1 || token.part == 2) counted += tokenizer.token(token.id);
  EXPECT_TRUE(counted.ends_with("Hello<|im_end|>")) << counted;
  EXPECT_EQ(tokenizer.id("</s>"), 2);
  EXPECT_TRUE(tokenizer.special(2));
  EXPECT_FALSE(tokenizer.special(*tokenizer.id("<tool>")));
  EXPECT_FALSE(tokenizer.id("<|nothing|>"));
  EXPECT_TRUE(tokenizer.before().empty());

  ScratchFolder folder;
  std::filesystem::copy_file(file_of("sp_bytes.model"), folder.path("tokenizer.model"));
  folder.write("tokenizer_config.json", R"({"add_bos_token": true, "add_eos_token": false})");
  const Tokenizer beside(tokenizer_file_of(folder.path("")));
  EXPECT_EQ(beside.before(), std::vector<int32_t>{1});
  EXPECT_TRUE(beside.behind().empty());
  EXPECT_EQ(end_token(beside, "auto"), 2);
}

// Of a model of SentencePiece alike.
TEST(Tokenizer, OfSentencePieceATokenAcrossABorderIsLearnt) {
  const Tokenizer tokenizer(file_of("sp_unigram.model"));
  auto last = [&](const std::vector<std::string>& parts) {
    const auto tokens = tokenizer.encode_parts(parts, {false, true});
    return str(tokens.back().id, " ", tokens.back().learnt);
  };
  EXPECT_EQ(last({"one: ", "the"}), last({"one:", " the"}));
  EXPECT_TRUE(last({"one: ", "the"}).ends_with(" 1"));
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer tokenizer(file_of("llama3"));
  EXPECT_EQ(tokenizer.ids(), 900);
  const auto end = tokenizer.id("<|eot_id|>");
  ASSERT_TRUE(end);
  EXPECT_EQ(tokenizer.token(*end), "<|eot_id|>");
  EXPECT_TRUE(tokenizer.special(*end));
  EXPECT_FALSE(tokenizer.id("<|nothing|>"));
  EXPECT_EQ(tokenizer.token(900), "");
}

}  // namespace
}  // namespace lockstep::launcher::data
