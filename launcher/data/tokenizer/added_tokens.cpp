// Reads the rows of added tokens, and finds them in a text.
#include "launcher/data/tokenizer/added_tokens.h"

#include "core/base/error.h"
#include "launcher/data/tokenizer/tokenizer_file.h"
#include "launcher/data/tokenizer/unicode_class.h"

namespace lockstep::launcher::data {

namespace {
size_t character_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}
// Whether the character at `at` is in the class; and its size in bytes.
bool is_at(const CharacterClass& of, std::string_view text, size_t at, size_t& bytes) {
  return of.has(character_at(text, at, bytes));
}
bool within_word(std::string_view text, size_t begin, size_t end) {
  size_t bytes = 0;
  if (begin > 0 && is_at(rust_word(), text, character_before(text, begin), bytes)) return true;
  return end < text.size() && is_at(rust_word(), text, end, bytes);
}
}  // namespace

std::vector<AddedToken> added_tokens(const nlohmann::json& file, const Vocabulary& vocabulary,
                                     const std::string& who) {
  std::vector<AddedToken> out;
  if (!file.contains("added_tokens") || file["added_tokens"].is_null()) return out;
  const std::string where = who + ": added_tokens";
  for (const auto& row : list_in(file, "added_tokens", who)) {
    const int64_t id = number_in(row, "id", where);
    AddedToken token{static_cast<int32_t>(id),
                     word_in(row, "content", where),
                     flag_in(row, "special", false, where),
                     flag_in(row, "single_word", false, where),
                     flag_in(row, "lstrip", false, where),
                     flag_in(row, "rstrip", false, where),
                     flag_in(row, "normalized", true, where)};
    if (id < 0 || id >= int64_t{1} << 31)
      throw UserError(str(where, ": ", printable(token.content), " has the id ", id, ", which is none"));
    if (token.content.empty()) continue;
    if (const auto found = vocabulary.find(token.content);
        found != vocabulary.end() && found->second != token.id)
      throw UserError(str(where, ": ", printable(token.content), " has the id ", id, ", and ", found->second,
                          " in the vocabulary; the file is of two tokenizers"));
    out.push_back(std::move(token));
  }
  return out;
}

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens, bool normalized,
                                   const Normalizer& normalizer) {
  for (const auto& token : tokens) {
    if (token.normalized != normalized) continue;
    MarkedText text{token.content, {{0, 0}}};
    if (normalized) normalizer.apply(text);
    if (!text.text.empty()) rows_.push_back({text.text, token});
  }
  // Of equal texts the first row counts.
  for (size_t i = rows_.size(); i-- > 0;) longest_.add(rows_[i].text, static_cast<int32_t>(i));
  longest_.finish();
}

void AddedTokenFinder::walk(std::string_view text, const Found& found) const {
  size_t done = 0, at = 0;
  std::vector<LongestTokens::At> all;
  if (!rows_.empty()) longest_.find(text, all);
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i].begin < at) continue;
    const Row* row = &rows_[static_cast<size_t>(all[i].id)];
    size_t begin = all[i].begin, end = begin + all[i].bytes;
    at = end;
    if (row->token.single_word && within_word(text, begin, end)) continue;
    size_t bytes = 0;
    if (row->token.lstrip)
      for (size_t before; begin > done; begin = before)
        if (before = character_before(text, begin); !is_at(white_space(), text, before, bytes)) break;
    if (row->token.rstrip)
      while (end < text.size() && is_at(white_space(), text, end, bytes)) end += bytes;
    if (begin > done) found(done, begin, -1);
    found(begin, end, row->token.id);
    // The search continues within white space that a token absorbs, because another token may begin with it.
    done = std::max(done, end);
  }
  if (done < text.size()) found(done, text.size(), -1);
}

}  // namespace lockstep::launcher::data
