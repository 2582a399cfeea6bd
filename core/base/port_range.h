// A range of TCP ports as people write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct PortRange {
  int64_t first = 0, last = 0;  // both belong to it
  int64_t count() const { return last - first + 1; }
};

// "30000-30999" (or with a colon), of ports 1024 to 65535. Nothing for any other text.
std::optional<PortRange> parse_port_range(const std::string& text);

}  // namespace lockstep
