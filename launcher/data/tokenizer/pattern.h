// A regular expression over UTF-8: the dialect of tokenizer.json (Oniguruma's), matched by PCRE2.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::launcher::data {

class Pattern {
 public:
  // Character classes are those of Oniguruma and its Unicode version (unicode_class.h). UserError naming
  // `who` for syntax that PCRE2 does not support or reads differently (^ $ . \h \b && ...).
  Pattern(const std::string& expression, const std::string& who);
  // A pattern that matches this literal text.
  static Pattern literal(const std::string& text, const std::string& who);
  // A built-in pattern, in PCRE2's dialect.
  static Pattern of_pcre(const std::string& expression, const std::string& who);

  // Begin and end of the first match in `text` (UTF-8) from byte `from` on; look-behind sees the text before
  // it. Thread-safe.
  using Match = std::optional<std::pair<size_t, size_t>>;
  Match find(std::string_view text, size_t from) const;
  // All matches in order, as the package finds them: empty matches count, except at the end of the previous
  // match and in an empty text.
  class Matches {
   public:
    Matches(const Pattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {}
    Match next();

   private:
    const Pattern& pattern_;
    std::string_view text_;
    size_t from_ = 0;
    std::optional<size_t> ended_;
  };

 private:
  struct Code;
  Pattern() = default;
  void compile(const std::string& text, const std::string& expression);
  std::shared_ptr<const Code> code_;
  std::string literal_;  // used when there is no compiled code
  std::string who_;
};

}  // namespace lockstep::launcher::data
