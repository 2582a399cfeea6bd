// Membership: decides the ranks and hosts of the next attempt: fewer after a loss, spare hosts in place of
// lost ones, and all again when they are back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/supervise/launch/options.h"
#include "launcher/supervise/run/cause.h"

namespace lockstep::launcher {

class Membership {
 public:
  explicit Membership(const LaunchOptions& asked) : asked_(asked), nproc_(asked.nproc), hosts_(asked.hosts) {}

  int64_t nproc() const { return nproc_; }
  const LaunchHosts& hosts() const { return hosts_; }
  // An agent may report a different name of its host than the command had.
  void name_hosts(const LaunchHosts& hosts) { hosts_ = hosts; }
  // The number of ranks it can grow to: those requested, without the excluded ones.
  int64_t wanted() const { return asked_.nproc; }
  // All of them, on any hosts.
  bool whole() const { return nproc_ == asked_.nproc; }
  // Whether ranks are left out on present hosts.
  bool ranks_away() const;
  // Hosts that are left out until a probe finds them back.
  const std::vector<HostRanks>& away() const { return away_; }

  // After a failure: leaves out the lost hosts or the dead ranks. Spare hosts replace lost ones; the rank
  // count shrinks down to min_nproc, else the same ranks are tried again.
  void lose(const std::vector<std::string>& hosts, const std::vector<int64_t>& ranks);
  // Leaves out a host deliberately. Returns false and does nothing if no spare host has room for its ranks
  // and the rest are too few.
  bool leave_out(const std::string& host);
  // Ranks computed wrong: leaves out their hosts (on a single host only the ranks) for good. `devices`: the
  // GPUs left on that host, which may replace theirs; 0: it has none. Returns false and does nothing if the
  // rest are too few.
  bool exclude(const std::vector<int64_t>& ranks, int64_t devices);
  // Takes back all ranks that died, and the absent hosts named in `back`.
  void take_back(const std::vector<std::string>& back);

 private:
  LaunchHosts without(const std::vector<std::string>& hosts, const std::vector<int64_t>& ranks,
                      std::vector<HostRanks>& away) const;
  bool enough(const LaunchHosts& hosts) const;
  void move_to(LaunchHosts hosts, std::vector<HostRanks> away);

  LaunchOptions asked_;
  int64_t nproc_;
  LaunchHosts hosts_;
  std::vector<HostRanks> away_;
};

// Ranks of the next attempt on one host: the remaining ones, but at least min_nproc; without min_nproc the
// same number.
int64_t next_nproc(const LaunchOptions& options, int64_t nproc, int64_t dead);

}  // namespace lockstep::launcher
