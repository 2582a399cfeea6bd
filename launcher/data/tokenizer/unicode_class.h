// Character classes of the engines in the package `tokenizers`: Oniguruma's (Unicode 16) for a file's
// expressions, and Rust's for the package's own cuts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::launcher::data {

// Ranges of code points, ascending and disjoint, both ends inclusive.
using CodePoints = std::vector<std::pair<uint32_t, uint32_t>>;
CodePoints complement(const CodePoints& of);
// The character at byte `at` of a UTF-8 text, and its size in bytes.
uint32_t character_at(std::string_view text, size_t at, size_t& bytes);

// A set, and the closest PCRE2 class in bracket syntax ("\\p{L}"; "": none).
struct CharacterClass {
  CodePoints points;
  std::string near;
  bool folds = true;  // the set is closed under case
  bool has(uint32_t point) const;
  // The set in PCRE2's bracket syntax. `negated`: its complement. PCRE2's own property plus a few ranges is
  // used when these are short, since it matches faster than many ranges; PCRE2's Unicode version is
  // determined once per process.
  std::string spelled(bool negated = false) const;
};

// The set of \p{name}: general categories by both names, scripts, Alphabetic, Uppercase, Lowercase,
// White_Space, and the names of [[:name:]]. Case, spaces, - and _ are ignored. Null for another name.
const CharacterClass* property(std::string_view name);
// The set of [[:name:]]; null for another name.
const CharacterClass* bracket_class(std::string_view name);
// The set of \w within brackets; outside (and as \p{Word}) Oniguruma also includes the superscript digits and
// fractions of Latin-1.
const CharacterClass& word_in_brackets();
const CharacterClass& word_alone();
const CharacterClass& white_space();
const CharacterClass& decimal_digit();

// \w of Rust's regex (which includes the joiners U+200C and U+200D), numbers (char::is_numeric) and
// punctuation (ASCII, and unicode_categories).
const CharacterClass& rust_word();
const CharacterClass& rust_number();
const CharacterClass& rust_punctuation();
// The characters that StripAccents and BertNormalizer strip, those that the latter's cleaning removes, and
// those without another normal form in the package's tables.
const CharacterClass& package_mark();
const CharacterClass& package_nonspacing();
const CharacterClass& package_control();
const CharacterClass& package_plain();

}  // namespace lockstep::launcher::data
