// Edit distance by dynamic programming over three rows, and the nearest known word.
#include "core/base/near_word.h"

#include <algorithm>
#include <utility>

namespace lockstep {

// before, above and row are the distances of a prefix of `a` to all prefixes of `b`. The last rule, over
// `before`, counts a swap of two neighbouring letters as one edit.
size_t edit_distance(std::string_view a, std::string_view b) {
  // Of the prefixes of `a` that end two letters before, one before, and here
  std::vector<size_t> before, above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

std::string near_word(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 100;  // no known word is that long, and the time is the product of both lengths
  if (word.size() > kLongest) return "";
  size_t allowed = word.size() / 3;
  std::string out;
  for (const auto& candidate : known)
    if (const size_t away = edit_distance(word, candidate);
        away <= allowed && (out.empty() || away < allowed))
      out = candidate, allowed = away;
  return out;
}

}  // namespace lockstep
