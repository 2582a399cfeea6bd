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
  std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t from) const;

 private:
  struct Code;
  Pattern() = default;
  void compile(const std::string& text, const std::string& expression);
  std::shared_ptr<const Code> code_;
  std::string literal_;  // where there is no code
  std::string who_;
};

}  // namespace lockstep::launcher::data
