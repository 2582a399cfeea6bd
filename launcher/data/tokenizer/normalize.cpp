// Normal forms by utf8proc; replacements.
#include "launcher/data/tokenizer/normalize.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "core/base/error.h"
#include "launcher/data/tokenizer/pattern.h"
#include "launcher/data/tokenizer/tokenizer_file.h"

namespace lockstep::launcher::data {

namespace {
bool is_ascii(std::string_view text) {
  for (unsigned char c : text)
    if (c >= 0x80) return false;
  return true;
}

// ASCII is its own normal form.
void to_form(std::string_view text, int form, std::string& out) {
  if (is_ascii(text)) {
    out += text;
    return;
  }
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &made,
                                             static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> held(made, &std::free);
  LS_CHECK(size >= 0, utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
}

void to_lower(std::string_view text, std::string& out) {
  utf8proc_int32_t point = 0;
  for (size_t i = 0; i < text.size();) {
    const auto left = static_cast<utf8proc_ssize_t>(text.size() - i);
    const auto used =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + i, left, &point);
    LS_CHECK(used > 0, "text is not UTF-8");
    i += static_cast<size_t>(used);
    if (point == 0x130) {  // the one letter whose small form is two characters
      out += "i\xcc\x87";
      continue;
    }
    utf8proc_uint8_t bytes[4];
    out.append(reinterpret_cast<char*>(bytes),
               static_cast<size_t>(utf8proc_encode_char(utf8proc_tolower(point), bytes)));
  }
}

void replace_all(std::string_view text, const Pattern& pattern, const std::string& by, std::string& out) {
  size_t done = 0;
  while (auto found = pattern.find(text, done)) {
    if (found->second == found->first) break;
    out += text.substr(done, found->first - done);
    out += by;
    done = found->second;
  }
  out += text.substr(done);
}

int form_of(const std::string& type) {
  if (type == "NFC") return UTF8PROC_COMPOSE;
  if (type == "NFD") return UTF8PROC_DECOMPOSE;
  if (type == "NFKC") return UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
  if (type == "NFKD") return UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  return 0;
}
}  // namespace

Normalizer::Normalizer(const nlohmann::json& described, const std::string& who) {
  if (!described.is_null()) add(described, who + ": normalizer");
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
  } else if (type == "Prepend") {
    steps_.emplace_back([by = word_in(described, "prepend", who)](MarkedText& text) {
      if (!text.text.empty()) text.prepend(by);
    });
  } else if (type == "Replace") {
    const Pattern pattern = pattern_in(described, "pattern", who);
    steps_.emplace_back([pattern, by = word_in(described, "content", who)](MarkedText& text) {
      text.each_part([&](std::string_view part, std::string& out) { replace_all(part, pattern, by, out); });
    });
  } else {
    throw UserError(str(who, " is ", type,
                        ", which is not read; NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace and "
                        "Sequence of them are: tokenize elsewhere, and use data.kind tokens"));
  }
}

void Normalizer::apply(MarkedText& text) const {
  for (const auto& step : steps_) step(text);
}

}  // namespace lockstep::launcher::data
