// Text helpers: splitting, globs over dotted names, nearest known word, numbers that read back exactly.
#include "core/base/text.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

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

bool glob_match(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.substr(0, 2) == "**") {
    for (size_t i = 0; i <= text.size(); ++i)
      if (glob_match(pattern.substr(2), text.substr(i))) return true;
    return false;
  }
  if (pattern[0] == '*') {
    for (size_t i = 0; i <= text.size(); ++i) {
      if (glob_match(pattern.substr(1), text.substr(i))) return true;
      if (i < text.size() && text[i] == '.') return false;
    }
    return false;
  }
  if (pattern[0] == '{') {
    size_t close = pattern.find('}');
    if (close != std::string_view::npos) {
      for (const auto& choice : split(pattern.substr(1, close - 1), ','))
        if (glob_match(choice + std::string(pattern.substr(close + 1)), text)) return true;
      return false;
    }
  }
  if (text.empty() || pattern[0] != text[0]) return false;
  return glob_match(pattern.substr(1), text.substr(1));
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 2) + 1;
  for (const auto& candidate : known) {
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        size_t up = row[j];
        row[j] = std::min({up + 1, row[j - 1] + 1, diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1)});
        diagonal = up;
      }
    }
    if (row.back() < best_distance) best_distance = row.back(), best = candidate;
  }
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
