// Amounts of memory as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// "141GB", "80GiB", "1.5 TB", "123456" (bytes): at least 1 byte. Nothing for any other text.
std::optional<int64_t> parse_bytes(const std::string& text);

}  // namespace lockstep
