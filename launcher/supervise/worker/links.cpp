// Reads TCP_INFO of this process's TCP connections to other hosts, including pending ones.
#include "launcher/supervise/worker/links.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
// An address as text; "" for a non-IP address. IPv4-mapped IPv6 is printed as IPv4.
std::string address_text(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = "";
  if (from.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(from).sin_addr, text, sizeof text);
  if (from.ss_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(from).sin6_addr, text, sizeof text);
  const std::string out = text, mapped = "::ffff:";
  return out.rfind(mapped, 0) == 0 ? out.substr(mapped.size()) : out;
}
bool is_loopback(const std::string& address) { return address.rfind("127.", 0) == 0 || address == "::1"; }

struct Seen {
  Link link;
  int64_t busiest = -1;
};

// How long the peer has not answered data or a probe. A kernel that cannot send (no route, or the peer's
// window is full) sends probes instead; the latest probe may still be answered, so it takes two. On a
// connection that was idle before, silence begins at its first use: the sum of the retransmission waits so
// far, each twice the previous one, bounds it.
int64_t silent_ms(const tcp_info& info) {
  const bool resent = info.tcpi_unacked && info.tcpi_retransmits;
  const bool asked = info.tcpi_unacked == 0 && info.tcpi_notsent_bytes && info.tcpi_probes >= 2;
  if (!resent && !asked) return 0;
  const int64_t wait_us = int64_t{info.tcpi_rto} << (asked ? info.tcpi_backoff : 0);
  const int64_t before_us = wait_us - (wait_us >> info.tcpi_backoff);
  const int64_t waited_us = before_us + std::min<int64_t>(int64_t{info.tcpi_last_data_sent} * 1000, wait_us);
  return std::min<int64_t>(info.tcpi_last_ack_recv, waited_us / 1000);
}

void add(std::map<std::string, Seen>& peers, const std::string& peer, const tcp_info& info) {
  Seen& seen = peers[peer];
  seen.link.peer = peer;
  seen.link.sent += info.tcpi_data_segs_out;
  // Excludes retransmissions of segments that had arrived, as the peer's DSACK reports: a kernel may
  // retransmit too early to a busy host.
  seen.link.again += std::max<int64_t>(0, int64_t{info.tcpi_total_retrans} - int64_t{info.tcpi_dsack_dups});
  seen.link.silent_ms = std::max(seen.link.silent_ms, silent_ms(info));
  if (info.tcpi_segs_out <= seen.busiest) return;
  seen.busiest = info.tcpi_segs_out;
  seen.link.rtt_us = info.tcpi_rtt;
  seen.link.least_rtt_us = info.tcpi_min_rtt == UINT32_MAX ? 0 : info.tcpi_min_rtt;
}

// InCsumErrors of the "Tcp:" line with numbers; the previous line has the column names.
int64_t damaged_segments() {
  std::ifstream file("/proc/self/net/snmp");
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Tcp:", 0) != 0) continue;
    std::istringstream words(line);
    std::vector<std::string> row;
    for (std::string word; words >> word;) row.push_back(word);
    if (names.empty()) {
      names = std::move(row);
      continue;
    }
    const auto at = std::find(names.begin(), names.end(), "InCsumErrors") - names.begin();
    int64_t out = 0;
    if (at < std::ssize(row)) std::from_chars(row[at].data(), row[at].data() + row[at].size(), out);
    return out;
  }
  return 0;
}

constexpr uint8_t kAsking = 2;  // TCP_SYN_SENT of the kernel's table of states

// getpeername fails for sockets whose peer has not answered yet. This reads inode and address of IPv4 ones
// from the kernel's table of this network namespace.
std::map<ino_t, std::string> asking() {
  std::map<ino_t, std::string> out;
  std::ifstream file("/proc/self/net/tcp");
  std::string line;
  std::getline(file, line);  // the column names
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word, peer, state;
    ino_t inode = 0;
    words >> word >> word >> peer >> state;
    for (int skipped = 0; skipped < 5; ++skipped) words >> word;
    if (!(words >> inode) || state != "02" || peer.size() < 8) continue;
    in_addr address{};  // the table prints the number as it is in memory
    std::from_chars(peer.data(), peer.data() + 8, address.s_addr, 16);
    char text[INET_ADDRSTRLEN] = "";
    out[inode] = inet_ntop(AF_INET, &address, text, sizeof text);
  }
  return out;
}
}  // namespace

Links read_links() {
  Links out;
  std::map<std::string, Seen> peers;
  std::set<std::string> own;
  std::optional<std::map<ino_t, std::string>> unanswered;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    const std::string name = entry.path().filename().string();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    sockaddr_storage here{}, there{};
    socklen_t here_size = sizeof here, there_size = sizeof there;
    tcp_info info{};
    socklen_t info_size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_size) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0)
      continue;
    const std::string from = address_text(here);
    std::string to;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) == 0) {
      to = address_text(there);
    } else if (struct stat at{}; info.tcpi_state == kAsking && fstat(fd, &at) == 0) {
      if (!unanswered) unanswered = asking();
      to = (*unanswered)[at.st_ino];
    }
    if (to.empty() || is_loopback(to) || from == to) continue;
    own.insert(from);
    add(peers, to, info);
  }
  for (const auto& [peer, seen] : peers) out.to.push_back(seen.link);
  out.own = {own.begin(), own.end()};
  out.damaged = damaged_segments();
  return out;
}

std::string links_text(const Links& links) {
  std::string out;
  for (const auto& address : links.own) out += str("own ", address, "\n");
  for (const auto& link : links.to)
    out += str("to ", link.peer, " ", link.rtt_us, " ", link.least_rtt_us, " ", link.sent, " ", link.again,
               " ", link.silent_ms, "\n");
  return str(out, "damaged ", links.damaged, "\n");
}

std::optional<Links> parse_links(const std::string& text) {
  Links out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, rest;
    words >> kind;
    Link link;
    if (kind == "own" && words >> rest) {
      out.own.push_back(rest);
    } else if (kind == "to" && words >> link.peer >> link.rtt_us >> link.least_rtt_us >> link.sent >>
                                   link.again >> link.silent_ms) {
      out.to.push_back(link);
    } else if (kind == "damaged" && words >> out.damaged) {
      return out;  // the last line
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::launcher
