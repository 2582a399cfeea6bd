// Membership: which ranks and hosts the next attempt of a run has. Fewer after a loss, spare hosts in the
// place of lost ones, all again when they are back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/supervise/cause.h"
#include "launcher/supervise/options.h"

namespace lockstep::launcher {

class Membership {
 public:
  explicit Membership(const LaunchOptions& asked) : asked_(asked), nproc_(asked.nproc), hosts_(asked.hosts) {}

  int64_t nproc() const { return nproc_; }
  const LaunchHosts& hosts() const { return hosts_; }
  // An agent may say another name of its host than the command had.
  void name_hosts(const LaunchHosts& hosts) { hosts_ = hosts; }
  // Ranks that it can become again: those that the command asked for, without those that were excluded.
  int64_t wanted() const { return asked_.nproc; }
  // All of them, on whichever hosts.
  bool whole() const { return nproc_ == asked_.nproc; }
  // Whether ranks are left out on hosts that are there.
  bool ranks_away() const;
  // Hosts that are left out, and that somebody must find to be back.
  const std::vector<HostRanks>& away() const { return away_; }

  // After a failure: without the hosts that were lost, or the ranks that died. Spare hosts replace hosts;
  // fewer ranks go on only down to min_nproc, else the same try again.
  void lose(const std::vector<std::string>& hosts, const std::vector<int64_t>& ranks);
  // A host is left out by rule. False, and nothing done, where no spare host has as many ranks and the rest
  // are too few.
  bool leave_out(const std::string& host);
  // Ranks computed wrong: their hosts are left out, or, on one host, they alone, and are not taken back.
  // `devices`: how many GPUs that host has left, of which others may take their place; 0: it has none. False,
  // and nothing done, where the rest are too few.
  bool exclude(const std::vector<int64_t>& ranks, int64_t devices);
  // All that died, and of the hosts that are away those in `back`.
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

// Ranks of the next attempt on one host: those that are left, but at least min_nproc; without min_nproc the
// same number.
int64_t next_nproc(const LaunchOptions& options, int64_t nproc, int64_t dead);

}  // namespace lockstep::launcher
