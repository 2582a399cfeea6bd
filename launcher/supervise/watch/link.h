// LinkWatch: finds links between hosts that are slow, lose or damage packets, or are cut, from kernel
// statistics of the ranks' connections (worker/links.h). MPI and NCCL show such faults only as a wait.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/supervise/worker/links.h"

namespace lockstep::launcher {

// Hosts to leave out so that none of `links` (from, to) remains. Greedy: repeatedly takes the host with the
// most links; ties go to the later one in `order`.
std::vector<std::string> hosts_to_leave_out(const std::set<std::pair<std::string, std::string>>& links,
                                            const std::vector<std::string>& order);

class LinkWatch {
 public:
  // `hosts`: the host of each rank.
  explicit LinkWatch(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  // New reports from the latest link texts of all ranks, in rank order (empty for ranks without one). Each is
  // given once, and again after a minute:
  //   the link between h0 and h1 is slow: a round trip takes 104.2 ms
  //   the link from h1 to h0 loses packets: 1.9 % of 412 are sent again
  //   the links of h1 (with h0, h2) are cut: no answer for 2.4 s
  // or that a link is well again. Call it about once a second.
  std::vector<std::string> look(const std::vector<Links>& words, int64_t now_ns);
  // A sentence about the links that are cut now; "" for none.
  std::string cut() const { return cut_; }
  double cut_s() const { return cut_s_; }  // how long the longest cut has lasted; 0 for none
  // The hosts to leave out so that no cut link remains.
  std::vector<std::string> cut_hosts() const { return cut_hosts_; }

 private:
  using Pair = std::pair<std::string, std::string>;  // from, to
  struct Window {
    int64_t sent = 0, again = 0;  // at the start of the window
    int64_t least_rtt_us = -1;    // minimum of the smoothed values within it
  };
  struct Found {
    int64_t rtt_us = 0, sent = 0, again = 0, silent_ms = 0;
  };
  void judge(const std::string& kind, const std::map<Pair, Found>& bad, int64_t now_ns,
             std::vector<std::string>& out);
  void find_cuts(const std::vector<Links>& words, int64_t now_ns, std::vector<std::string>& out);
  const std::string& host_of(const std::string& address) const;

  std::vector<std::string> hosts_;
  std::map<std::string, std::string> host_of_address_;
  std::map<std::pair<size_t, std::string>, Window> windows_;  // by rank and peer address
  std::map<std::string, int64_t> damaged_;                    // by host, at the start of the window
  int64_t began_ns_ = 0;
  struct Told {
    int64_t last_ns = 0, bad_ns = 0;  // time of the last report, and of the last bad window
  };
  std::map<std::pair<std::string, std::string>, Told> told_;  // by kind and links
  std::string cut_;
  double cut_s_ = 0;
  std::vector<std::string> cut_hosts_;
};

}  // namespace lockstep::launcher
