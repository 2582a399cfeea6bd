// Rows by their first byte.
#include "launcher/data/tokenizer/added_tokens.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/data/tokenizer/tokenizer_file.h"

namespace lockstep::launcher::data {

namespace {
size_t character_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}
// Whether the pattern matches right at `at`, and up to where.
size_t match_at(const Pattern& pattern, std::string_view text, size_t at) {
  const auto found = pattern.find(text, at);
  return found && found->first == at ? found->second : at;
}
const Pattern& space() {
  static const Pattern one("\\s", "added_tokens");
  return one;
}
const Pattern& word() {
  static const Pattern one("\\w", "added_tokens");
  return one;
}
bool within_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    const size_t before = character_before(text, begin);
    if (match_at(word(), text.substr(0, begin), before) > before) return true;
  }
  return end < text.size() && match_at(word(), text, end) > end;
}
}  // namespace

std::vector<AddedToken> added_tokens(const nlohmann::json& file, const Vocabulary& vocabulary,
                                     const std::string& who) {
  std::vector<AddedToken> out;
  if (!file.contains("added_tokens") || file["added_tokens"].is_null()) return out;
  const std::string where = who + ": added_tokens";
  for (const auto& row : list_in(file, "added_tokens", who)) {
    const int64_t id = number_in(row, "id", where);
    AddedToken token{static_cast<int32_t>(id),        word_in(row, "content", where),
                     flag_in(row, "special", false),  flag_in(row, "single_word", false),
                     flag_in(row, "lstrip", false),   flag_in(row, "rstrip", false),
                     flag_in(row, "normalized", true)};
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
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    const auto first = [](const Row& row) { return static_cast<unsigned char>(row.text[0]); };
    return first(a) != first(b) ? first(a) < first(b) : a.text.size() > b.text.size();
  });
  for (const auto& row : rows_) ++begin_[static_cast<unsigned char>(row.text[0]) + 1];
  for (int i = 0; i < 256; ++i) begin_[i + 1] += begin_[i];
}

void AddedTokenFinder::walk(std::string_view text, const Found& found) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size() && !rows_.empty();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const Row* row = nullptr;
    for (uint32_t i = begin_[first]; i < begin_[first + 1] && !row; ++i)
      if (text.compare(at, rows_[i].text.size(), rows_[i].text) == 0) row = &rows_[i];
    if (!row) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + row->text.size();
    at = end;
    if (row->token.single_word && within_word(text, begin, end)) continue;
    if (row->token.lstrip)
      for (size_t before; begin > done; begin = before)
        if (before = character_before(text, begin); match_at(space(), text, before) != begin) break;
    if (row->token.rstrip)
      for (size_t next; end < text.size(); end = next)
        if (next = match_at(space(), text, end); next == end) break;
    if (begin > done) found(done, begin, -1);
    found(begin, end, row->token.id);
    // White space that one takes along is still looked through: a token that begins with it is found, too.
    done = std::max(done, end);
  }
  if (done < text.size()) found(done, text.size(), -1);
}

}  // namespace lockstep::launcher::data
