// Oniguruma's words in PCRE2's, and the match.
#include "launcher/data/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cctype>

#include "core/base/error.h"

namespace lockstep::launcher::data {

namespace {
[[noreturn]] void refuse(const std::string& who, const std::string& expression, const std::string& why) {
  throw UserError(str(who, ": the expression ", shortened(printable(expression), 200), " ", why,
                      "; use a tokenizer whose expressions are made of characters, classes, \\p{..}, \\s, "
                      "\\d, groups, look-ahead and repetitions"));
}

// What an escape means in Oniguruma for Unicode, as a class; "" for one that both read alike.
std::string class_of(char escape) {
  switch (escape) {
    case 's':
      return "\\p{White_Space}";
    case 'S':
      return "\\P{White_Space}";
    case 'd':
      return "\\p{Nd}";
    case 'D':
      return "\\P{Nd}";
    default:
      return "";
  }
}
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

// What stands for the escape whose letter is from[i]; i moves to its last character.
std::string escaped(const std::string& from, size_t& i, bool in_class, const std::string& who) {
  const char escape = from[i];
  std::string out = class_of(escape);
  if (out.empty()) {
    if (escape == 'w')
      out = in_class ? std::string(kWord) : str('[', kWord, ']');
    else if (escape == 'W' && !in_class)
      out = str("[^", kWord, ']');
    else if (std::string_view("pPrntfvx").find(escape) != std::string_view::npos ||
             !std::isalnum(static_cast<unsigned char>(escape)))
      out = {'\\', escape};
    else
      refuse(who, from, str("has \\", escape, ", which is not read"));
  }
  if (std::string_view("pPx").find(escape) != std::string_view::npos && i + 1 < from.size() &&
      from[i + 1] == '{')  // the name of a property, or a code point
    while (i + 1 < from.size() && from[i] != '}') out += from[++i];
  return out;
}
// Refuses what stands at from[i] where two dialects read it in two ways.
void check_plain(const std::string& from, size_t i, bool in_class, const std::string& who) {
  const char c = from[i], next = i + 1 < from.size() ? from[i + 1] : '\0';
  if (in_class) {
    if (c == '&' && next == '&') refuse(who, from, "intersects classes (&&)");
    if (c == '[' && next != ':') refuse(who, from, "nests classes");
  } else if (c == '^' || c == '$' || c == '.') {
    refuse(who, from, str("has ", c, ", which means lines"));
  } else if (c == '}' && next == '+') {
    refuse(who, from, "has }+, which two dialects read in two ways");
  }
}

// The same expression for PCRE2.
std::string translated(const std::string& from, const std::string& who) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < from.size(); ++i) {
    const char c = from[i];
    if (c == '\\' && i + 1 < from.size()) {
      out += escaped(from, ++i, in_class, who);
      continue;
    }
    check_plain(from, i, in_class, who);
    if (c == '[' && !in_class) {
      in_class = true;
      out += c;
      // A bracket right behind the opening one is a character.
      if (i + 1 < from.size() && from[i + 1] == '^') out += from[++i];
      if (i + 1 < from.size() && from[i + 1] == ']') out += "\\]", ++i;
      continue;
    }
    if (c == '[') {  // [:alpha:]
      const size_t end = from.find(":]", i);
      if (end == std::string::npos) refuse(who, from, "has a class that does not end");
      out += from.substr(i, end + 2 - i);
      i = end + 1;
      continue;
    }
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}
}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  bool fast = false;
  ~Code() { pcre2_code_free(code); }
};

Pattern::Pattern(const std::string& expression, const std::string& who) : who_(who) {
  const std::string text = translated(expression, who);
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
    refuse(who, expression, str("is none: ", reinterpret_cast<const char*>(why), " at byte ", at));
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

std::optional<std::pair<size_t, size_t>> Pattern::find(std::string_view text, size_t from) const {
  if (!code_) {
    const size_t at = text.find(literal_, from);
    if (at == std::string_view::npos) return {};
    return std::pair{at, at + literal_.size()};
  }
  // A match's data belong to a thread; the first pair is all that is asked for.
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
