// Compares pattern and text from each position where the text can start with the pattern.
#include "core/reading/sentence.h"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {
// A gap first takes all characters of its kind. Then it gives back the end of them, from the last place where
// the literal text after the gap fits, so that this text can match.
std::optional<Sentence> sentence_at(std::string_view text, std::string_view pattern, size_t begin) {
  Sentence out{begin, begin, {}};
  auto take = [&](std::string_view characters, bool those) {
    const size_t end =
        those ? text.find_first_not_of(characters, out.end) : text.find_first_of(characters, out.end);
    const size_t from = std::exchange(out.end, std::min(end, text.size()));
    return text.substr(from, out.end - from);
  };
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '#' || c == '@') {
      std::string_view gap = c == '#' ? take("0123456789", true) : take(" \t\r\n\v\f", false);
      const std::string_view behind = pattern.substr(i + 1, pattern.find_first_of("#@ ", i + 1) - i - 1);
      const size_t first = out.end - gap.size(),
                   last = text.substr(first, gap.size() + behind.size()).rfind(behind);
      if (gap.empty() || last == std::string_view::npos || last == 0) return {};
      gap = gap.substr(0, last);
      out.end = first + gap.size();
      out.gaps.emplace_back(gap);
    } else if (out.end == text.size() || text[out.end] != c) {
      return {};
    } else if (c == ' ') {
      take(" ", true);
    } else {
      ++out.end;
    }
  }
  return out;
}
}  // namespace

std::optional<Sentence> find_sentence(std::string_view text, std::string_view pattern, size_t from) {
  const std::string_view front = pattern.substr(0, pattern.find_first_of("#@ "));
  for (size_t at = from; at <= text.size(); ++at) {
    at = text.find(front, at);
    if (at == std::string_view::npos) return {};
    if (auto found = sentence_at(text, pattern, at)) return found;
  }
  return {};
}

}  // namespace lockstep
