// Amounts of memory as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// "141GB", "80GiB", "1.5 TB", "123456" (bytes): at least 1 byte. Nothing for any other text.
std::optional<int64_t> parse_bytes(const std::string& text);

// The bytes of an environment variable (core/base/env.h) that has a number of MiB; 0 for no limit. UserError
// naming the variable for any other text.
int64_t limit_of_environment(const std::string& name);

}  // namespace lockstep
