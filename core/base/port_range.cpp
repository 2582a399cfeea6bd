// Parses two numbers with a separator.
#include "core/base/port_range.h"

#include <charconv>

namespace lockstep {

std::optional<PortRange> parse_port_range(const std::string& text) {
  PortRange out;
  const char *at = text.data(), *end = at + text.size();
  const auto first = std::from_chars(at, end, out.first);
  if (first.ec != std::errc() || first.ptr == end || (*first.ptr != '-' && *first.ptr != ':'))
    return std::nullopt;
  const auto last = std::from_chars(first.ptr + 1, end, out.last);
  if (last.ec != std::errc() || last.ptr != end) return std::nullopt;
  if (out.first < 1024 || out.last > 65535 || out.last < out.first) return std::nullopt;
  return out;
}

}  // namespace lockstep
