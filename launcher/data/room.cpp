// Free memory: the least of the host's, its cgroup's and `ulimit -v`.
#include "launcher/data/room.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/reading/one_line.h"
#include "core/reading/whole_number.h"
#include "launcher/memory/host.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kNeverAsked = int64_t{16} << 20;

// The ranks of this host, which read the same files at the same time.
int64_t ranks_here() {
  const char* given = std::getenv("LOCAL_WORLD_SIZE");
  return std::max<int64_t>(1, whole_number(given ? given : "").value_or(1));
}
std::string words_of(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }
}  // namespace

void check_room(const std::string& path, const std::string& what, int64_t bytes, const std::string& way_out,
                const std::string& root) {
  const int64_t ranks = ranks_here();
  if (bytes <= kNeverAsked || room_for_more(bytes, ranks, root)) return;
  const HostMemory host = host_memory(root);
  const auto mapped = address_space_left();
  const bool limited = mapped && (!host.bytes || *mapped < host.bytes / ranks);
  throw UserError(str("data.paths: ", one_line(path), ": ", what, " takes ", words_of(bytes), " of memory",
                      ranks == 1 ? "" : str(" on each of ", ranks, " ranks"), ", and ",
                      limited ? str("this process may map ", words_of(*mapped), " more (ulimit -v)")
                              : str("this host has ", words_of(host.bytes), " (", host.source, ")"),
                      "; ", way_out));
}

}  // namespace lockstep::launcher::data
