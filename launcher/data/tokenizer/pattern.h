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
  // Classes are those of Oniguruma and its Unicode (unicode_class.h). `who` is named where the expression is
  // refused: UserError for what PCRE2 does not take, and for what it reads otherwise (^ $ . \h \b && ...).
  Pattern(const std::string& expression, const std::string& who);
  // One that finds this text as it is.
  static Pattern literal(const std::string& text, const std::string& who);
  // One of our own, in PCRE2's dialect.
  static Pattern of_pcre(const std::string& expression, const std::string& who);

  // Begin and end of the first match in `text` (UTF-8) from byte `from` on; what stands before it is seen by
  // look-behind. Safe from several threads.
  using Match = std::optional<std::pair<size_t, size_t>>;
  Match find(std::string_view text, size_t from) const;
  // All of them in their order, as the package walks over a text: an empty one is a match too, but where the
  // one before it ends, and there is none in an empty text.
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
  std::string literal_;  // where there is no code
  std::string who_;
};

}  // namespace lockstep::launcher::data
