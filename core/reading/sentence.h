// Sentences with gaps: what a log or another program says, found again without regular expressions, which
// call themselves once per character.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct Sentence {
  size_t begin = 0, end = 0;      // of the text that was found
  std::vector<std::string> gaps;  // what stood in the gaps
};
// The first place at or behind `from` where the text says `pattern`: '#' is a number of digits, '@' a word
// without white space, a space one or more spaces, and anything else is itself. Each gap takes all it can,
// but what stands behind it in the pattern, up to the next gap or space.
std::optional<Sentence> find_sentence(std::string_view text, std::string_view pattern, size_t from = 0);

}  // namespace lockstep
