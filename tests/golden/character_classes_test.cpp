// Where pre-tokenizers cut a text of all characters of Unicode: as the package tokenizers does.
// tokenizer/classes.py made what is kept, and says which texts they are.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "launcher/data/tokenizer/normalize.h"
#include "launcher/data/tokenizer/pre_tokenize.h"

namespace lockstep::launcher::data {
namespace {

std::string characters(uint32_t begin, uint32_t end) {
  std::string out;
  utf8proc_uint8_t bytes[4];
  for (uint32_t c = begin; c < end; ++c)
    out.append(reinterpret_cast<char*>(bytes),
               static_cast<size_t>(utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes)));
  return out;
}
// `count` characters a text; between letters where they stand in words.
std::vector<std::string> texts(size_t count, bool in_words) {
  const std::string all = characters(0, 0xd800) + characters(0xe000, 0x33480) + characters(0xe0000, 0xe0200);
  std::vector<std::string> out;
  size_t taken = count;
  for (size_t at = 0, n; at < all.size(); at += n, ++taken) {
    n = 1;
    while (at + n < all.size() && (static_cast<unsigned char>(all[at + n]) & 0xc0) == 0x80) ++n;
    if (taken == count) out.emplace_back(), taken = 0;
    if (in_words) out.back() += 'a';
    out.back() += all.substr(at, n);
  }
  if (in_words)
    for (auto& text : out) text += 'a';
  return out;
}

nlohmann::json cuts(const PreTokenizer& pre_tokenizer, const std::vector<std::string>& texts) {
  int64_t pieces = 0;
  uint64_t value = 0xcbf29ce484222325;
  for (const auto& text : texts) {
    std::vector<int> character(text.size() + 1);  // the number of the one that begins at a byte, or before
    int n = 0;
    for (size_t i = 0; i < text.size(); ++i)
      character[i] = (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80 ? n - 1 : n++;
    character[text.size()] = n;
    MarkedText marked{text, {{0, 0}}};
    pre_tokenizer.apply(marked, [&](std::string_view piece, size_t at) {
      ++pieces;
      for (unsigned char byte : str(character[at], '-', character[at + piece.size()], ','))
        value = (value ^ byte) * 0x100000001b3;
    });
  }
  char hex[20];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(value));
  return {pieces, hex};
}

TEST(CharacterClasses, AreThoseOfThePackage) {
  const auto kept = nlohmann::json::parse(std::ifstream(TOKENIZERS "/classes.json"));
  const std::pair<const char*, std::vector<std::string>> all[] = {{"alone", texts(1024, false)},
                                                                  {"in words", texts(512, true)}};
  ASSERT_GT(kept.size(), 90u);
  for (const auto& [name, one] : kept.items()) {
    if (!one.contains("pre_tokenizer")) continue;
    const PreTokenizer pre_tokenizer(one["pre_tokenizer"], name);
    for (const auto& [which, of] : all)
      if (one.contains(which)) { EXPECT_EQ(cuts(pre_tokenizer, of), one[which]) << name << ", " << which; }
  }
}

// What becomes of each character, within a text and at its ends.
TEST(CharacterClasses, NormalFormsAreThoseOfThePackage) {
  const auto kept = nlohmann::json::parse(std::ifstream(TOKENIZERS "/classes.json"));
  const std::vector<std::string> all = texts(1, false);
  int normalizers = 0;
  for (const auto& [name, one] : kept.items()) {
    if (!one.contains("normalizer")) continue;
    ++normalizers;
    const Normalizer normalizer(one["normalizer"], name);
    uint64_t value = 0xcbf29ce484222325;
    for (const auto& character : all) {
      MarkedText within{"a" + character + "b", {{0, 0}}}, alone{character, {{0, 0}}};
      normalizer.apply(within), normalizer.apply(alone);
      for (unsigned char byte : within.text + alone.text + ",") value = (value ^ byte) * 0x100000001b3;
    }
    char hex[20];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(value));
    EXPECT_EQ(one["hash"], hex) << name;
  }
  EXPECT_EQ(normalizers, 12);
}

// Joiners stand within words of Persian, Sinhala and Hindi: alpheios-project/alpheios-core#491,
// ysenarath/sinling#10.
TEST(CharacterClasses, JoinersAreOfWordsWhereRustCuts) {
  auto pieces = [](const nlohmann::json& described, const std::string& text) {
    std::vector<std::string> out;
    MarkedText marked{text, {{0, 0}}};
    PreTokenizer(described, "t").apply(marked, [&](std::string_view piece, size_t) {
      out.emplace_back(piece);
    });
    return out;
  };
  const std::string persian = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
                    sinhala = "\u0d9a\u0dca\u200d\u0dbb\u0dd3";
  EXPECT_EQ(pieces({{"type", "Whitespace"}}, persian + " " + sinhala),
            (std::vector<std::string>{persian, sinhala}));
  const nlohmann::json words = {
      {"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}, {"behavior", "Isolated"}};
  EXPECT_EQ(pieces(words, sinhala), (std::vector<std::string>{"\u0d9a\u0dca", "\u200d", "\u0dbb\u0dd3"}));
}

}  // namespace
}  // namespace lockstep::launcher::data
