// A text as a whole number: nothing is thrown, whatever the text is.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

// Nothing where the text is not a whole number from end to end, or is one beyond the type.
template <class Number = int64_t>
std::optional<Number> whole_number(std::string_view text) {
  Number out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return out;
}

}  // namespace lockstep
