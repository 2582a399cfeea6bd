// Finds sentences with gaps in logs and in other programs' output, without std::regex, which recurses once
// per character.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct Sentence {
  size_t begin = 0, end = 0;      // of the text that was found
  std::vector<std::string> gaps;  // the texts in the gaps
};
// The first match of `pattern` at or after `from`. '#' matches digits, '@' a word without white space, a
// space one or more spaces, and any other character itself. Each gap matches as much as it can, but leaves
// the text that follows it in the pattern, up to the next gap or space.
std::optional<Sentence> find_sentence(std::string_view text, std::string_view pattern, size_t from = 0);

}  // namespace lockstep
