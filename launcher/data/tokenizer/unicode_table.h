// Unicode 16 as data: the general category, script and properties of each character.
#pragma once

namespace lockstep::launcher::data {

// Runs of code points from 0 on, each a count (none: 1) and a category: "32CcZs3Po". The rest is Cn.
extern const char* const kCategoryRuns;
// Ranges in hexadecimal, "345 363-36f": the marks and symbols that are Alphabetic, and the characters that
// are Lowercase or Uppercase without being letters of that case.
extern const char* const kAlphabeticBesideLetters;
extern const char* const kLowercaseBesideLetters;
extern const char* const kUppercaseBesideLetters;
// Punctuation that is missing in the older table of Rust's unicode_categories.
extern const char* const kPunctuationOfLaterUnicode;
// Marks that are missing in the older tables of the package's normalizers: of StripAccents, and (nonspacing
// ones) of BertNormalizer.
extern const char* const kMarksOfLaterUnicode;
extern const char* const kNonspacingOfLaterUnicode;
// "Arabic 600-604 606-60b; Armenian ...": all scripts except Common and Inherited.
extern const char* const kScripts;

}  // namespace lockstep::launcher::data
