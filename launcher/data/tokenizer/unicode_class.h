// Classes of characters as the engines of the package `tokenizers` have them: Oniguruma's of Unicode 16 for
// the expressions of a file, and Rust's for what the package cuts at by itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::launcher::data {

// Ranges of code points, ascending and apart, both ends within.
using CodePoints = std::vector<std::pair<uint32_t, uint32_t>>;
CodePoints complement(const CodePoints& of);
// The character at byte `at` of a text that is UTF-8, and how many bytes it has.
uint32_t character_at(std::string_view text, size_t at, size_t& bytes);

// A set, and what PCRE2 calls nearly the same within brackets ("\\p{L}"; "": nothing near).
struct CharacterClass {
  CodePoints points;
  std::string near;
  bool folds = true;  // with a letter it holds its other cases
  bool has(uint32_t point) const;
  // The same set between brackets of PCRE2's dialect. `negated`: all others. PCRE2's own property is used
  // where the rest is short, since it is matched faster than ranges; which Unicode PCRE2 has is asked, once a
  // process.
  std::string spelled(bool negated = false) const;
};

// Of \p{name}: general categories by both names, scripts, Alphabetic, Uppercase, Lowercase, White_Space, and
// the words of brackets. Upper and lower case, spaces, - and _ are all one. Null for another name.
const CharacterClass* property(std::string_view name);
// Of [[:name:]]; null for another name.
const CharacterClass* bracket_class(std::string_view name);
// Of \w within brackets; alone (and as \p{Word}) Oniguruma counts the small digits and fractions of Latin-1,
// too.
const CharacterClass& word_in_brackets();
const CharacterClass& word_alone();
const CharacterClass& white_space();
const CharacterClass& decimal_digit();

// \w of Rust's regex (the joiners U+200C and U+200D are of it), numbers (char::is_numeric) and punctuation
// (of ASCII, and of unicode_categories).
const CharacterClass& rust_word();
const CharacterClass& rust_number();
const CharacterClass& rust_punctuation();
// What StripAccents and BertNormalizer take off, what the latter's cleaning removes, and what has no normal
// form but itself in the tables that the package normalizes by.
const CharacterClass& package_mark();
const CharacterClass& package_nonspacing();
const CharacterClass& package_control();
const CharacterClass& package_plain();

}  // namespace lockstep::launcher::data
