// Normalizers: Unicode normal forms by utf8proc, and replacements.
#include "launcher/data/tokenizer/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

#include "core/base/error.h"
#include "launcher/data/tokenizer/pattern.h"
#include "launcher/data/tokenizer/precompiled.h"
#include "launcher/data/tokenizer/stop.h"
#include "launcher/data/tokenizer/tokenizer_file.h"
#include "launcher/data/tokenizer/unicode_class.h"

namespace lockstep::launcher::data {

namespace {
// Limit of growth: Unicode makes a character at most 11 times as long (U+FDFA), and 3 times that if its
// spaces are marked.
constexpr size_t kGrowth = 34, kGrowthOfShort = 4096, kMostNormal = size_t{4} << 30;

bool is_ascii(std::string_view text) {
  for (unsigned char c : text)
    if (c >= 0x80) return false;
  return true;
}

// By utf8proc, whose Unicode is later than the package's.
void whole_to_form(std::string_view text, int form, std::string& out) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &made,
                                             static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> held(made, &std::free);
  LS_CHECK(size >= 0, utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
}

// ASCII is its own normal form, and so are characters that the package's tables do not have.
void part_to_form(std::string_view text, int form, std::string& out) {
  if (is_ascii(text)) {
    out += text;
    return;
  }
  size_t done = 0;
  for (size_t at = 0, bytes; at < text.size(); at += bytes) {
    if (!package_plain().has(character_at(text, at, bytes))) continue;
    if (at > done) whole_to_form(text.substr(done, at - done), form, out);
    out += text.substr(at, bytes);
    done = at + bytes;
  }
  if (done < text.size()) whole_to_form(text.substr(done), form, out);
}

// The lower-case letter; for letters added after Unicode 15, from Rust's table of Unicode 17.
utf8proc_int32_t small_letter(utf8proc_int32_t c) {
  if (c < 0x1c89) return utf8proc_tolower(c);
  if (c >= 0x10d50 && c <= 0x10d65) return c + 0x20;
  if (c >= 0x16ea0 && c <= 0x16eb8) return c + 0x1b;
  switch (c) {
    case 0x1c89:
    case 0xa7cc:
    case 0xa7ce:
    case 0xa7d2:
    case 0xa7d4:
    case 0xa7da:
      return c + 1;
    case 0xa7cb:
      return 0x264;
    case 0xa7dc:
      return 0x19b;
    default:
      return utf8proc_tolower(c);
  }
}

// Processes a long text in parts, split before ASCII characters, which never compose with the character
// before.
void to_form(std::string_view text, int form, std::string& out) {
  constexpr size_t kPart = size_t{64} << 10;
  while (!text.empty()) {
    size_t end = std::min(kPart, text.size());
    while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80) ++end;
    check_stop();
    part_to_form(text.substr(0, end), form, out);
    text.remove_prefix(end);
  }
}

void to_lower(std::string_view text, std::string& out) {
  StopEvery look;
  utf8proc_int32_t point = 0;
  for (size_t i = 0; i < text.size();) {
    const auto left = static_cast<utf8proc_ssize_t>(text.size() - i);
    const auto used =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + i, left, &point);
    LS_CHECK(used > 0, "text is not UTF-8");
    look();
    i += static_cast<size_t>(used);
    if (point == 0x130) {  // the one letter whose lower case is two characters
      out += "i\xcc\x87";
      continue;
    }
    utf8proc_uint8_t bytes[4];
    out.append(reinterpret_cast<char*>(bytes),
               static_cast<size_t>(utf8proc_encode_char(small_letter(point), bytes)));
  }
}

// Maps each character: `change` gives another code point, or a negative number to remove it.
void each_character(std::string_view text, std::string& out,
                    const std::function<utf8proc_int32_t(utf8proc_int32_t)>& change) {
  StopEvery look;
  utf8proc_int32_t point = 0;
  for (size_t i = 0; i < text.size();) {
    const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + i,
                                       static_cast<utf8proc_ssize_t>(text.size() - i), &point);
    LS_CHECK(used > 0, "text is not UTF-8");
    look();
    const utf8proc_int32_t made = change(point);
    utf8proc_uint8_t bytes[4];
    if (made == point)
      out += text.substr(i, static_cast<size_t>(used));
    else if (made >= 0)
      out.append(reinterpret_cast<char*>(bytes), static_cast<size_t>(utf8proc_encode_char(made, bytes)));
    i += static_cast<size_t>(used);
  }
}

// The package's table for machine translation: removes control characters and maps other spaces to one.
utf8proc_int32_t nmt(utf8proc_int32_t c) {
  auto in = [c](utf8proc_int32_t first, utf8proc_int32_t last) { return c >= first && c <= last; };
  if (in(0x1, 0x8) || c == 0xb || in(0xe, 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return -1;
  const bool space = in(0x9, 0xa) || in(0xc, 0xd) || c == 0x1680 || in(0x200b, 0x200f) || c == 0x2028 ||
                     c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  return space ? ' ' : c;
}
utf8proc_int32_t without_marks(utf8proc_int32_t c) {
  return package_mark().has(static_cast<uint32_t>(c)) ? -1 : c;
}

// Like BERT's own tokenizer: removes control, format and private characters; white space becomes spaces.
utf8proc_int32_t cleaned(utf8proc_int32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return ' ';
  if (package_control().has(static_cast<uint32_t>(c))) return -1;
  const auto kind = utf8proc_category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP ? ' '
                                                                                                      : c;
}
utf8proc_int32_t without_nonspacing(utf8proc_int32_t c) {
  return package_nonspacing().has(static_cast<uint32_t>(c)) ? -1 : c;
}
// The blocks of Chinese characters that BERT's own tokenizer names.
bool is_chinese(utf8proc_int32_t c) {
  auto in = [c](utf8proc_int32_t first, utf8proc_int32_t last) { return c >= first && c <= last; };
  return in(0x4e00, 0x9fff) || in(0x3400, 0x4dbf) || in(0x20000, 0x2a6df) || in(0x2a700, 0x2b73f) ||
         in(0x2b740, 0x2b81f) || in(0x2b920, 0x2ceaf) || in(0xf900, 0xfaff) || in(0x2f800, 0x2fa1f);
}
// Puts a space on both sides of each.
void apart(std::string_view text, std::string& out) {
  StopEvery look;
  utf8proc_int32_t point = 0;
  for (size_t i = 0; i < text.size();) {
    const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + i,
                                       static_cast<utf8proc_ssize_t>(text.size() - i), &point);
    LS_CHECK(used > 0, "text is not UTF-8");
    look();
    const bool chinese = is_chinese(point);
    if (chinese) out += ' ';
    out += text.substr(i, static_cast<size_t>(used));
    if (chinese) out += ' ';
    i += static_cast<size_t>(used);
  }
}

// Trims white space at the ends.
void strip(MarkedText& text, bool left, bool right) {
  size_t begin = 0, end = text.text.size(), bytes = 0;
  while (left && begin < end && white_space().has(character_at(text.text, begin, bytes))) begin += bytes;
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(text.text[last]) & 0xc0) == 0x80) --last;
    if (!white_space().has(character_at(text.text, last, bytes))) break;
    end = last;
  }
  if (begin > 0 || end < text.text.size()) text.keep(begin, end);
}

// Whether a character combines with the previous one: a mark, or a vowel or final of a Hangul syllable.
bool joins(uint32_t c) {
  return package_mark().has(c) || (c >= 0x1160 && c <= 0x11ff) || (c >= 0xd7b0 && c <= 0xd7ff);
}
// Each part is normalized separately, so none may begin with a combining character. Borders within such a
// cluster move to its ends; the cluster goes to a learnt part of it, else to the first.
void borders_between_characters(MarkedText& text) {
  const std::string& all = text.text;
  auto& marks = text.marks;
  size_t bytes = 0;
  for (size_t i = 1, behind; i < marks.size(); i = behind) {
    behind = i + 1;
    size_t begin = marks[i].at, end = begin;
    if (begin == 0 || begin == all.size() || !joins(character_at(all, begin, bytes))) continue;
    do {
      do --begin;
      while (begin > 0 && (static_cast<unsigned char>(all[begin]) & 0xc0) == 0x80);
    } while (begin > 0 && joins(character_at(all, begin, bytes)));
    while (end < all.size() && joins(character_at(all, end, bytes))) end += bytes;
    bool owned = marks[i - 1].learnt;
    while (behind < marks.size() && marks[behind].at < end) ++behind;
    size_t owner = i;
    while (!owned && owner < behind && !marks[owner].learnt) ++owner;
    owned |= owner == behind;
    for (size_t k = i; k < behind; ++k) marks[k].at = !owned && k <= owner ? begin : end;
  }
}

int form_of(const std::string& type) {
  if (type == "NFC") return UTF8PROC_COMPOSE;
  if (type == "NFD") return UTF8PROC_DECOMPOSE;
  if (type == "NFKC") return UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
  if (type == "NFKD") return UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  return 0;
}
}  // namespace

Normalizer::Normalizer(const nlohmann::json& described, const std::string& who) : who_(who + ": normalizer") {
  if (!described.is_null()) add(described, who_);
}

void Normalizer::add(const nlohmann::json& described, const std::string& who) {
  const std::string type = word_in(described, "type", who);
  if (type == "Sequence") {
    for (const auto& each : list_in(described, "normalizers", who)) add(each, who);
  } else if (const int form = form_of(type)) {
    steps_.emplace_back([form](MarkedText& text) {
      text.each_part([&](std::string_view part, std::string& out) { to_form(part, form, out); });
    });
  } else if (type == "Lowercase") {
    steps_.emplace_back([](MarkedText& text) { text.each_part(to_lower); });
  } else if (type == "Precompiled") {
    auto table = std::make_shared<const Precompiled>(word_in(described, "precompiled_charsmap", who), who);
    steps_.emplace_back([table](MarkedText& text) {
      text.each_part([&](std::string_view part, std::string& out) {
        table->apply(part, out, [&](size_t bytes) { text.grown(bytes); });
      });
    });
  } else if (type == "Nmt" || type == "StripAccents") {
    auto change = type == "Nmt" ? nmt : without_marks;
    steps_.emplace_back([change](MarkedText& text) {
      text.each_part([&](std::string_view part, std::string& out) { each_character(part, out, change); });
    });
  } else if (type == "BertNormalizer") {
    add_bert(described, who);
  } else if (type == "Strip") {
    steps_.emplace_back([left = flag_in(described, "strip_left", true, who),
                         right = flag_in(described, "strip_right", true, who)](MarkedText& text) {
      strip(text, left, right);
    });
  } else if (type == "Prepend") {
    steps_.emplace_back([by = word_in(described, "prepend", who)](MarkedText& text) {
      if (text.text.empty()) return;
      text.grown(text.text.size() + by.size());
      text.prepend(by);
    });
  } else if (type == "Replace") {
    const Pattern pattern = pattern_in(described, "pattern", who);
    steps_.emplace_back([pattern, by = word_in(described, "content", who)](MarkedText& text) {
      Pattern::Matches matches(pattern, text.text);
      text.replace([&] { return matches.next(); }, by);
    });
  } else {
    throw UserError(
        str(who, " is ", type,
            ", which is not read; NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, "
            "Precompiled, Nmt, Strip, StripAccents, BertNormalizer and Sequence of them are: tokenize "
            "elsewhere, and use data.kind tokens"));
  }
}

void Normalizer::add_bert(const nlohmann::json& described, const std::string& who) {
  auto each = [&](auto change) {
    steps_.emplace_back([change](MarkedText& text) { text.each_part(change); });
  };
  const bool lower = flag_in(described, "lowercase", true, who);
  if (flag_in(described, "clean_text", true, who))
    each([](std::string_view part, std::string& out) { each_character(part, out, cleaned); });
  if (flag_in(described, "handle_chinese_chars", true, who)) each(apart);
  if (flag_in(described, "strip_accents", lower, who))
    each([](std::string_view part, std::string& out) {
      std::string form;
      to_form(part, UTF8PROC_DECOMPOSE, form);
      each_character(form, out, without_nonspacing);
    });
  if (lower) each(to_lower);
}

void Normalizer::apply(MarkedText& text) const {
  const size_t bytes = text.text.size();
  if (text.marks.size() > 1 && !steps_.empty()) borders_between_characters(text);
  text.most = std::min(kGrowth * bytes + kGrowthOfShort, kMostNormal);
  try {
    for (const auto& step : steps_) {
      step(text);
      text.grown(text.text.size());
    }
  } catch (const TextGrew& grew) {
    throw UserError(str(who_, " makes ", grew.bytes, " bytes or more of a text of ", bytes, ", and up to ",
                        text.most,
                        " are taken; use a tokenizer that does not multiply its text, or take the step "
                        "out of the file"));
  }
}

}  // namespace lockstep::launcher::data
