// Unicode 16 as data: which characters are of which general category, script and property.
#pragma once

namespace lockstep::launcher::data {

// Runs of code points from 0 on, each a count (none: 1) and a category: "32CcZs3Po". What follows is Cn.
extern const char* const kCategoryRuns;
// Ranges in hexadecimal, "345 363-36f": the marks and symbols that are Alphabetic, and what is Lowercase or
// Uppercase without being a letter of that case.
extern const char* const kAlphabeticBesideLetters;
extern const char* const kLowercaseBesideLetters;
extern const char* const kUppercaseBesideLetters;
// Punctuation that the table of Rust's unicode_categories, which is older, does not have.
extern const char* const kPunctuationOfLaterUnicode;
// Marks that the older tables of the package's normalizers do not have: of StripAccents, and of
// BertNormalizer (nonspacing ones).
extern const char* const kMarksOfLaterUnicode;
extern const char* const kNonspacingOfLaterUnicode;
// "Arabic 600-604 606-60b; Armenian ...": all scripts but Common and Inherited.
extern const char* const kScripts;

}  // namespace lockstep::launcher::data
