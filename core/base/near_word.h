// Suggests the known word that an unknown word was probably meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The number of letters to change, insert, delete, or swap with the next one, to turn one word into the other
// (Damerau-Levenshtein, optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The nearest known word that differs from `word` by a typing error: at most one edit for every three letters
// of `word`. Returns "" if no word is that near; `nearest` (text.h) accepts larger distances.
std::string near_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace lockstep
