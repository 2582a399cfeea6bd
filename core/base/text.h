// Text helpers without <format>: str(a, b, c) joins its arguments; join, split, trim, nearest (for "did you
// mean"), printable (for terminals).
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

namespace text_detail {
template <class T>
void put(std::ostringstream& out, const T& part) {
  out << part;
}
template <class T>
void put(std::ostringstream& out, const std::vector<T>& parts) {
  out << '[';
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out << ',';
    put(out, parts[i]);
  }
  out << ']';
}
}  // namespace text_detail

// Joins the arguments with operator<<; vectors print as [a,b,c]. Uses the classic locale.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (text_detail::put(out, parts), ...);
  return out.str();
}

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);  // keeps empty parts; "" gives {""}
std::string trim(std::string_view text);  // without leading and trailing white space
// '*' within one dotted part, '**' across parts, '{a,b}' alternatives (not nested). The time is at most
// proportional to the pattern's length times the text's.
bool glob_match(std::string_view pattern, std::string_view text);
// The known word with the smallest edit distance; "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
std::string bytes_text(double bytes);  // "1.50 MiB"
// Text that is safe for a terminal: control characters and bytes that are not UTF-8 are written as \x1b; DEL,
// C1 controls and direction marks as \u0085, which JSON reads back. Line ends and tabs stay.
std::string printable(std::string_view text);
bool is_utf8(std::string_view text);
// The first `most` bytes of a text at most, cut between characters, with the number of bytes left out:
// "abc... (17 more)".
std::string shortened(std::string_view text, size_t most);
// Shortest decimal text that reads back as the same double (and float), with '.' in every locale.
std::string number_text(double value);
std::string number_text(float value);

}  // namespace lockstep
