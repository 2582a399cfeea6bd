// Translates Oniguruma's syntax to PCRE2's, and matches.
#include "launcher/data/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include "core/base/error.h"
#include "launcher/data/tokenizer/stop.h"
#include "launcher/data/tokenizer/unicode_class.h"

namespace lockstep::launcher::data {

namespace {
[[noreturn]] void refuse(const std::string& who, const std::string& expression, const std::string& why) {
  throw UserError(str(who, ": the expression ", shortened(printable(expression), 200), " ", why,
                      "; use a tokenizer whose expressions are made of characters, classes, \\p{..}, \\s, "
                      "\\d, groups, look-ahead and repetitions"));
}

// The case-folded form of a character, which has several letters for some ("ss" for the sharp s).
std::u32string fold(uint32_t c) {
  utf8proc_int32_t points[8];
  int boundary = 0;
  const auto n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), points, 8, UTF8PROC_CASEFOLD, &boundary);
  return n > 0 ? std::u32string(points, points + std::min<utf8proc_ssize_t>(n, 8)) : std::u32string(1, c);
}
// The letters with such a form.
const std::vector<std::pair<uint32_t, std::u32string>>& long_folds() {
  static const auto all = [] {
    std::vector<std::pair<uint32_t, std::u32string>> out;
    for (uint32_t c = 0x80; c < 0x10000; ++c)  // there are none after this
      if (std::u32string folded = fold(c); folded.size() > 1) out.emplace_back(c, std::move(folded));
    return out;
  }();
  return all;
}
std::string utf8(const std::u32string& points) {
  std::string out;
  for (char32_t c : points) {
    utf8proc_uint8_t bytes[4];
    const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
    out.append(reinterpret_cast<char*>(bytes), static_cast<size_t>(n));
  }
  return out;
}

// Translates an expression of Oniguruma's dialect to PCRE2's, character by character.
class Translation {
 public:
  Translation(const std::string& from, const std::string& who) : from_(from), who_(who) {}

  std::string text() {
    for (; i_ < from_.size(); ++i_) {
      const char c = from_[i_];
      if (c == '\\' && i_ + 1 < from_.size()) {
        ++i_;
        out_ += escaped(false);
        if (point_)
          check_letter(*point_);
        else
          plain_.clear();
      } else if (c == '[') {
        bracket();
      } else if (c == '(') {
        open();
      } else if (std::string_view("^$.|)*+?{}").find(c) != std::string_view::npos) {
        check(c);
        if (c == ')' && ignores_case_.size() > 1)
          ignores_case_.pop_back();
        else
          plain_.clear();
        out_ += c;
      } else {
        const size_t begin = i_;
        check_letter(character());
        out_.append(from_, begin, i_ + 1 - begin);
      }
    }
    return out_;
  }

 private:
  [[noreturn]] void no(const std::string& why) const { refuse(who_, from_, why); }
  char at(size_t i) const { return i < from_.size() ? from_[i] : '\0'; }
  // Reads the current character; ends at its last byte.
  uint32_t character() {
    size_t bytes = 0;
    const uint32_t out = character_at(from_, i_, bytes);
    i_ += bytes - 1;
    return out;
  }

  // A literal character. With case ignored, Oniguruma matches several letters as one: "ss" as the sharp s,
  // "fi" as the ligature. PCRE2 does not.
  void check_letter(uint32_t c) {
    if (!ignores_case_.back()) return plain_.clear();
    check_range(c, c);
    plain_ += fold(c);
    for (const auto& [whole, folded] : long_folds())
      if (plain_.ends_with(folded))
        no(str("ignores the case of ", utf8(folded), ", which is one letter in other spellings"));
  }
  // A set of alternative characters.
  void check_range(uint32_t first, uint32_t last) const {
    check_each([&](uint32_t c) { return c >= first && c <= last; });
  }
  template <class Has>
  void check_each(const Has& has) const {
    if (!ignores_case_.back()) return;
    for (const auto& [whole, folded] : long_folds())
      if (has(whole))
        no(str("ignores the case of ", utf8(std::u32string(1, whole)), ", which is ", utf8(folded),
               " in other spellings"));
  }

  // A class, alone or within brackets. In PCRE2, properties in brackets ignore case together with the
  // letters.
  std::string of_class(const CharacterClass& one, bool negated, bool in_bracket) {
    const bool folded = ignores_case_.back() && !one.folds;
    if (in_bracket) {
      if (folded) no("has a class of upper or lower case within brackets where case is ignored");
      if (!all_but_) check_each([&](uint32_t c) { return one.has(c) != negated; });
      return one.spelled(negated);
    }
    const std::string text = str(negated ? "[^" : "[", one.spelled(), ']');
    return folded ? str("(?-i:", text, ')') : text;
  }

  // Translates the escape with the current letter; ends at its last character.
  std::string escaped(bool in_bracket) {
    point_.reset();
    const char escape = from_[i_];
    switch (escape) {
      case 's':
      case 'S':
        return of_class(white_space(), escape == 'S', in_bracket);
      case 'd':
      case 'D':
        return of_class(decimal_digit(), escape == 'D', in_bracket);
      case 'w':
      case 'W':
        return of_class(in_bracket ? word_in_brackets() : word_alone(), escape == 'W', in_bracket);
      case 'p':
      case 'P':
        return of_property(escape == 'P', in_bracket);
      case 'v':
        return "\\x{b}";
      case 'x':
        return code_point();
      default:
        if (std::string_view("rntf").find(escape) == std::string_view::npos &&
            std::isalnum(static_cast<unsigned char>(escape)))
          no(str("has \\", std::string(1, escape), ", which is not read"));
        if (std::isalpha(static_cast<unsigned char>(escape))) return {'\\', escape};
        const size_t begin = i_;
        point_ = character();
        return "\\" + from_.substr(begin, i_ + 1 - begin);
    }
  }

  std::string of_property(bool negated, bool in_bracket) {
    const size_t end = at(i_ + 1) == '{' ? from_.find('}', i_) : std::string::npos;
    if (end == std::string::npos) no("has \\p without a name in {}");
    std::string name = from_.substr(i_ + 2, end - i_ - 2);
    i_ = end;
    if (name.starts_with('^')) negated = !negated, name.erase(0, 1);
    const CharacterClass* found = property(name);
    if (!found)
      no(str("has \\p{", shortened(printable(name), 40),
             "}, which is none of general categories, scripts and the classes of [: :]"));
    return of_class(*found, negated, in_bracket);
  }

  // \x41 or \x{e9}. Two digits from 80 on mean a byte in Oniguruma, and a character in PCRE2.
  std::string code_point() {
    const size_t begin = i_ - 1;
    if (at(i_ + 1) == '{') {
      const size_t end = from_.find('}', i_);
      if (end == std::string::npos) no("has \\x{ without its }");
      i_ = end;
    } else {
      for (int k = 0; k < 2 && std::isxdigit(static_cast<unsigned char>(at(i_ + 1))); ++k) ++i_;
      if (i_ - begin == 3 && from_[begin + 2] >= '8')
        no("has \\x of a byte from 80 on, which is no character of UTF-8; write \\x{..}");
    }
    const std::string digits = from_.substr(begin + 2 + (from_[begin + 2] == '{'));
    std::from_chars(digits.data(), digits.data() + digits.size(), point_.emplace(0), 16);
    return from_.substr(begin, i_ + 1 - begin);
  }

  // [...]: a bracket right after the opening one is a literal.
  void bracket() {
    plain_.clear();
    out_ += from_[i_++];
    all_but_ = at(i_) == '^';
    if (all_but_) out_ += from_[i_++];
    if (at(i_) == ']') out_ += "\\]", ++i_;
    std::optional<uint32_t> first;  // possible start of a range
    bool range = false;
    for (; i_ < from_.size() && from_[i_] != ']'; ++i_) {
      const char c = from_[i_];
      const size_t begin = i_;
      if (c == '&' && at(i_ + 1) == '&') no("intersects classes (&&)");
      point_.reset();
      if (c == '[' && at(i_ + 1) == ':')
        named_class();
      else if (c == '[')
        no("nests classes");
      else if (c == '\\' && i_ + 1 < from_.size())
        ++i_, out_ += escaped(true);
      else
        point_ = character(), out_.append(from_, begin, i_ + 1 - begin);
      if (c == '-' && first && !range) {
        range = true;
        continue;
      }
      if (point_ && !all_but_) check_range(range ? *first : *point_, *point_);
      first = range ? std::nullopt : point_;
      range = false;
    }
    if (i_ < from_.size()) out_ += ']';
  }
  void named_class() {
    const size_t end = from_.find(":]", i_);
    if (end == std::string::npos) no("has a class that does not end");
    std::string name = from_.substr(i_ + 2, end - i_ - 2);
    i_ = end + 1;
    const bool negated = name.starts_with('^');
    if (negated) name.erase(0, 1);
    const CharacterClass* found = bracket_class(name);
    if (!found) no(str("has [:", shortened(printable(name), 40), ":], which is not a class"));
    out_ += of_class(*found, negated, true);
  }

  // Refuses syntax that the two dialects read differently.
  void check(char c) const {
    if (c == '^' || c == '$' || c == '.') no(str("has ", c, ", which means lines"));
    if (c == '{' && at(i_ + 1) == ',') no("has {, , which two dialects read in two ways");
    if (c != '}') return;
    if (at(i_ + 1) == '+') no("has }+, which two dialects read in two ways");
    const size_t open = from_.rfind('{', i_);
    if (at(i_ + 1) == '?' && open != std::string::npos && from_.find(',', open) > i_)
      no("has }? behind one number, which two dialects read in two ways");
  }

  // A group: plain, named, look-around, atomic, or with case ignored.
  void open() {
    bool ignores = ignores_case_.back();
    if (at(i_ + 1) == '*') no("has (*, a verb of PCRE2");
    size_t end = i_;  // end of the group's opening syntax
    if (at(i_ + 1) == '?') {
      const char kind = at(i_ + 2);
      const bool look = kind == '=' || kind == '!' || kind == '>' || kind == '<';
      size_t k = i_ + 2;
      bool on = true;
      for (; !look && (at(k) == 'i' || at(k) == '-'); ++k) {
        if (at(k) == '-') on = false;
        if (at(k) == 'i') ignores = on;
      }
      if (!look && (at(k) != ':' && (at(k) != ')' || k == i_ + 2)))
        no(str("has (?", shortened(printable(std::string(1, kind)), 8), ", which is not read"));
      if (!look) end = k;
    }
    if (end == i_) plain_.clear();
    out_.append(from_, i_, end + 1 - i_);
    i_ = end;
    if (from_[end] == ')')
      ignores_case_.back() = ignores;  // until the end of the enclosing group
    else
      ignores_case_.push_back(ignores);
  }

  const std::string &from_, &who_;
  size_t i_ = 0;
  std::string out_;
  std::u32string plain_;                   // consecutive letters, case-folded
  std::optional<uint32_t> point_;          // of the escape, if it is a character
  bool all_but_ = false;                   // the bracket begins with ^
  std::vector<bool> ignores_case_{false};  // for each open group
};
}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  bool fast = false;
  ~Code() { pcre2_code_free(code); }
};

Pattern::Pattern(const std::string& expression, const std::string& who) : who_(who) {
  compile(Translation(expression, who).text(), expression);
}

Pattern Pattern::of_pcre(const std::string& expression, const std::string& who) {
  Pattern out;
  out.who_ = who;
  out.compile(expression, expression);
  return out;
}

void Pattern::compile(const std::string& text, const std::string& expression) {
  auto code = std::make_shared<Code>();
  std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  LS_CHECK(context, "no memory for an expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF | PCRE2_UCP,
                             &error, &at, context.get());
  if (!code->code) {
    PCRE2_UCHAR why[256];
    pcre2_get_error_message(error, why, sizeof why);
    refuse(who_, expression, str("is none: ", reinterpret_cast<const char*>(why), " at byte ", at));
  }
  code->fast = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  code_ = std::move(code);
}

Pattern Pattern::literal(const std::string& text, const std::string& who) {
  if (text.empty()) throw UserError(str(who, ": an empty text to split at"));
  Pattern out;
  out.literal_ = text, out.who_ = who;
  return out;
}

Pattern::Match Pattern::Matches::next() {
  while (!text_.empty() && from_ <= text_.size()) {
    const Match found = pattern_.find(text_, from_);
    if (!found) break;
    if (found->first < found->second || found->first != ended_) {
      from_ = found->second, ended_ = from_;
      return found;
    }
    ++from_;
    while (from_ < text_.size() && (static_cast<unsigned char>(text_[from_]) & 0xc0) == 0x80) ++from_;
  }
  text_ = {};
  return {};
}

Pattern::Match Pattern::find(std::string_view text, size_t from) const {
  check_stop();
  if (!code_) {
    const size_t at = text.find(literal_, from);
    if (at == std::string_view::npos) return {};
    return std::pair{at, at + literal_.size()};
  }
  // Match data are per thread; only the first pair of offsets is needed.
  thread_local const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found =
      code_->fast
          ? pcre2_jit_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, data.get(), nullptr)
          : pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, data.get(), nullptr);
  if (found == PCRE2_ERROR_NOMATCH) return {};
  if (found < 0) {
    PCRE2_UCHAR why[256];
    pcre2_get_error_message(found, why, sizeof why);
    throw UserError(str(who_, ": an expression failed on the text: ", reinterpret_cast<const char*>(why),
                        "; give the text in smaller records"));
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
  return std::pair{static_cast<size_t>(ends[0]), static_cast<size_t>(ends[1])};
}

}  // namespace lockstep::launcher::data
