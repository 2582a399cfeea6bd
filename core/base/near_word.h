// What a word that is not known may have been meant as, where something is near enough to be meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// How many letters are to be changed, put in, taken out, or swapped with the next one, to make one word of
// the other.
size_t edit_distance(std::string_view a, std::string_view b);

// The known word that a slip of the fingers makes of `word`: at most one letter in three is another one, is
// missing, is superfluous or has changed places with the next. "" where none is so near; `nearest` (text.h)
// takes what is further.
std::string near_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace lockstep
