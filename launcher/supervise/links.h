// Links between hosts as the kernel sees them: of each rank's TCP connections the time of a round trip, what
// was sent again, and how long an answer has been missing. Each rank of several hosts writes them beside its
// flight record once a second; LinkWatch (link_watch.h) reads them. Nothing is sent to find them out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

// All connections of a process with one other host.
struct Link {
  std::string peer;          // its address
  int64_t rtt_us = 0;        // of the busiest connection, smoothed; waits of the peer's for an answer count
  int64_t least_rtt_us = 0;  // the least of the last minutes
  int64_t sent = 0;          // segments with data since the connections began
  int64_t again = 0;         // of them those that were sent once more, since they had not come
  int64_t silent_ms = 0;     // without an answer, where what was sent or asked again has none; else 0
  bool operator==(const Link&) const = default;
};

struct Links {
  std::vector<std::string> own;  // addresses of this host that its connections have
  std::vector<Link> to;          // in the order of their addresses
  int64_t damaged = 0;  // segments with a wrong checksum that this host has got, of all its processes
  bool operator==(const Links&) const = default;
};

// Of this process. Connections within the host do not count.
Links read_links();

// As lines of words, and back; nothing for a text that is not whole.
std::string links_text(const Links& links);
std::optional<Links> parse_links(const std::string& text);

}  // namespace lockstep::launcher
