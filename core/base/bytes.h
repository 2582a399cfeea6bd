// Parses amounts of memory as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// "141GB", "80GiB", "1.5 TB", "123456" (bytes): at least 1 byte. Nothing for any other text.
std::optional<int64_t> parse_bytes(const std::string& text);

// Reads an environment variable (core/base/env.h) as a number of MiB and returns bytes; 0 means no limit.
// Throws UserError, naming the variable, for any other text.
int64_t limit_of_environment(const std::string& name);

}  // namespace lockstep
