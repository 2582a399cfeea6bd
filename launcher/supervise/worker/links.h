// Links between hosts as the kernel sees them: round trip time, retransmissions and missing answers of each
// rank's TCP connections. On several hosts, each rank writes them next to its flight record once a second;
// LinkWatch (watch/link.h) reads them. Nothing is sent to measure them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

// All connections of a process to one other host.
struct Link {
  std::string peer;          // its address
  int64_t rtt_us = 0;        // of the busiest connection, smoothed; includes delays of the peer
  int64_t least_rtt_us = 0;  // the minimum over the last minutes
  int64_t sent = 0;          // segments with data since the connections began
  int64_t again = 0;         // of these, retransmitted because they were lost
  int64_t silent_ms = 0;     // how long data or repeated probes have had no answer; else 0
  bool operator==(const Link&) const = default;
};

struct Links {
  std::vector<std::string> own;  // this host's addresses of the connections
  std::vector<Link> to;          // sorted by address
  int64_t damaged = 0;           // segments with a wrong checksum that this host received, over all processes
  bool operator==(const Links&) const = default;
};

// The links of this process. Connections within the host do not count.
Links read_links();

// Prints links as lines of words, and parses them; nullopt for an incomplete text.
std::string links_text(const Links& links);
std::optional<Links> parse_links(const std::string& text);

}  // namespace lockstep::launcher
