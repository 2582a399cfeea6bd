// Parses a text as a whole number; never throws.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

// Returns nullopt unless the whole text is an integer in the range of the type.
template <class Number = int64_t>
std::optional<Number> whole_number(std::string_view text) {
  Number out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return out;
}

}  // namespace lockstep
