// Room in this host's memory for what a file unpacks to, looked for before anything is unpacked.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher::data {

// UserError naming the file, what of it is `bytes` large in memory, what there is and `way_out`, where the
// ranks of this host cannot each hold it. A few MiB are never asked for. `root` stands before /proc and /sys.
void check_room(const std::string& path, const std::string& what, int64_t bytes, const std::string& way_out,
                const std::string& root = "");

}  // namespace lockstep::launcher::data
