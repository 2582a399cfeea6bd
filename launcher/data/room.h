// Checks before decompression that a file's content fits in this host's memory.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher::data {

// UserError if the ranks of this host cannot each hold `bytes`, naming the file, its part, the free memory
// and `way_out`. A few MiB always pass. `root` is prefixed to /proc and /sys.
void check_room(const std::string& path, const std::string& what, int64_t bytes, const std::string& way_out,
                const std::string& root = "");

}  // namespace lockstep::launcher::data
