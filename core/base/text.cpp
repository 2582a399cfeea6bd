// Text helpers: splitting, globs over dotted names, nearest known word, numbers that read back exactly.
#include "core/base/text.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "core/base/near_word.h"

namespace lockstep {

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out += separator;
    out += parts[i];
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i)
    if (i == text.size() || text[i] == separator) {
      parts.emplace_back(text.substr(start, i - start));
      start = i + 1;
    }
  return parts;
}

std::string trim(std::string_view text) {
  const char* space = " \t\r\n";
  size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(space) - first + 1));
}

namespace {
// A glob pattern as a nondeterministic automaton: each position in the pattern is a state, and the set of
// reachable states is updated per character of the text.
class Glob {
 public:
  explicit Glob(std::string_view pattern)
      : pattern_(pattern), after_(pattern.size() + 1, kOutside), now_(pattern.size() + 1), next_(now_) {
    for (size_t i = 0; i < pattern_.size(); ++i) {
      const size_t close = pattern_[i] == '{' ? pattern_.find('}', i) : std::string_view::npos;
      if (close == std::string_view::npos) continue;
      for (size_t k = i; k <= close; ++k) after_[k] = close + 1;
      i = close;
    }
  }
  bool matches(std::string_view text) {
    enter(now_, 0);
    for (char c : text) {
      std::fill(next_.begin(), next_.end(), 0);
      bool any = false;
      for (size_t at = 0; at < pattern_.size(); ++at)
        if (now_[at]) any = step(at, c) || any;
      if (!any) return false;
      now_.swap(next_);
    }
    return now_[pattern_.size()];
  }

 private:
  static constexpr size_t kOutside = 0;  // no position after a group is 0
  // Marks a state and all that it reaches without consuming a character.
  void enter(std::vector<char>& set, size_t at) {
    std::vector<size_t> open{at};
    while (!open.empty()) {
      const size_t place = open.back();
      open.pop_back();
      if (set[place]) continue;
      set[place] = 1;
      if (place == pattern_.size()) continue;
      if (pattern_[place] == '*') open.push_back(behind_stars(place));
      if (after_[place] == kOutside) continue;
      if (const char c = pattern_[place]; c == ',' || c == '}') {
        open.push_back(after_[place]);
      } else if (c == '{' && starts_group(place)) {
        open.push_back(place + 1);
        for (size_t k = place + 1; k + 1 < after_[place]; ++k)
          if (pattern_[k] == ',') open.push_back(k + 1);
      }
    }
  }
  bool starts_group(size_t place) const { return place == 0 || after_[place - 1] != after_[place]; }
  size_t behind_stars(size_t place) const {
    while (place < pattern_.size() && pattern_[place] == '*') ++place;
    return place;
  }
  // Follows the state `at` over one character: a star stays in its state, a plain character moves to the next
  // one. Returns whether it matches.
  bool step(size_t at, char c) {
    const char own = pattern_[at];
    if (own == '*') {
      const bool across = behind_stars(at) - at > 1;
      if (!across && c == '.') return false;
      enter(next_, at);
      return true;
    }
    const bool word =
        after_[at] == kOutside || !(own == ',' || own == '}' || (own == '{' && starts_group(at)));
    if (!word || own != c) return false;
    enter(next_, at + 1);
    return true;
  }

  std::string_view pattern_;
  std::vector<size_t> after_;  // per position within a group: the position after the group
  std::vector<char> now_, next_;
};
}  // namespace

// The text before the first special character is compared directly, since most patterns are plain names.
bool glob_match(std::string_view pattern, std::string_view text) {
  const size_t plain = std::min(pattern.find_first_of("*{"), pattern.size());
  if (text.substr(0, plain) != pattern.substr(0, plain)) return false;
  return Glob(pattern.substr(plain)).matches(text.substr(plain));
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 2) + 1;
  for (const auto& candidate : known)
    if (const size_t away = edit_distance(word, candidate); away < best_distance)
      best_distance = away, best = candidate;
  return best;
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 5) bytes /= 1024, ++unit;
  char out[48];
  std::snprintf(out, sizeof out, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
  return out;
}

namespace {
// The number of bytes of the UTF-8 character at the front of a text; 0: invalid (cut, overlong, a surrogate,
// beyond U+10FFFF).
size_t character(std::string_view text, char32_t& code) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t bytes = first < 0x80                    ? 1
                       : first >= 0xc2 && first < 0xe0 ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  if (!bytes || text.size() < bytes) return 0;
  code = bytes == 1 ? first : first & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  return overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : bytes;
}
// C1 controls, and marks that change the text direction.
bool hidden(char32_t code) {
  return (code >= 0x80 && code < 0xa0) || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}
}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  char shown[8];
  while (!text.empty()) {
    char32_t code = 0;
    const size_t bytes = character(text, code);
    const unsigned char first = static_cast<unsigned char>(text[0]);
    if (bytes && (hidden(code) || code == 0x7f)) {
      std::snprintf(shown, sizeof shown, "\\u%04x", static_cast<unsigned>(code));
      out += shown;
    } else if (!bytes || (bytes == 1 && first < 0x20 && first != '\n' && first != '\t')) {
      std::snprintf(shown, sizeof shown, "\\x%02x", first);
      out += shown;
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    char32_t code = 0;
    const size_t bytes = character(text, code);
    if (!bytes) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return str(text.substr(0, end), "... (", text.size() - end, " more)");
}

std::string number_text(double value) {
  char out[64];
  auto end = std::to_chars(out, out + sizeof out, value).ptr;
  return std::string(out, end);
}
std::string number_text(float value) {
  char out[64];
  auto end = std::to_chars(out, out + sizeof out, value).ptr;
  return std::string(out, end);
}

}  // namespace lockstep
