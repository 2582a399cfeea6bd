// LinkWatch: which link between two hosts is slow, loses or damages packets, or is cut, from what the kernels
// of both see of the ranks' connections (links.h). What an MPI or NCCL between them only shows as a wait gets
// a name.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/supervise/links.h"

namespace lockstep::launcher {

// The hosts without which none of `links` (from, to) is left: of each, the host that has most of them, and of
// two alike the later one in `order`.
std::vector<std::string> hosts_to_leave_out(const std::set<std::pair<std::string, std::string>>& links,
                                            const std::vector<std::string>& order);

class LinkWatch {
 public:
  // `hosts`: the host of each rank.
  explicit LinkWatch(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  // What there is to say now of the newest words of all ranks, in order (empty ones of ranks that have none
  // yet), once each, and again after a minute:
  //   the link between h0 and h1 is slow: a round trip takes 104.2 ms
  //   the link from h1 to h0 loses packets: 1.9 % of 412 are sent again
  //   the links of h1 (with h0, h2) are cut: no answer for 2.4 s
  // and that a link is well again. Call it about once a second.
  std::vector<std::string> look(const std::vector<Links>& words, int64_t now_ns);
  // Of the links that are cut now: what there is to say of them; "" for none.
  std::string cut() const { return cut_; }
  double cut_s() const { return cut_s_; }  // how long the one that is cut longest has been so; 0 for none
  // The hosts without which no link is cut.
  std::vector<std::string> cut_hosts() const { return cut_hosts_; }

 private:
  using Pair = std::pair<std::string, std::string>;  // from, to
  struct Window {
    int64_t sent = 0, again = 0;  // at its beginning
    int64_t least_rtt_us = -1;    // of the smoothed ones within it
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
  std::map<std::pair<size_t, std::string>, Window> windows_;  // of a rank's link with an address
  std::map<std::string, int64_t> damaged_;                    // of a host, at the beginning of the window
  int64_t began_ns_ = 0;
  struct Told {
    int64_t last_ns = 0, bad_ns = 0;  // when it was said, and when it was last so
  };
  std::map<std::pair<std::string, std::string>, Told> told_;  // by kind and links
  std::string cut_;
  double cut_s_ = 0;
  std::vector<std::string> cut_hosts_;
};

}  // namespace lockstep::launcher
