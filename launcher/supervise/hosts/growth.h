// Growth: decides when a run that lost ranks gets them back. Ranks on a present host can return at any time;
// a lost host is probed by ssh.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/process/child.hpp>

#include "launcher/supervise/hosts/membership.h"

namespace lockstep::launcher {

// Probes hosts, one after another, with `ssh HOST true` (or the agent that OMPI_MCA_plm_rsh_agent names).
// Never blocks.
class HostProbe {
 public:
  ~HostProbe();
  // Hosts that answered since clear(). Call it now and then, with seconds of a steady clock.
  const std::vector<std::string>& answered(const std::vector<HostRanks>& hosts, double now_s);
  void clear() { answered_.clear(); }

 private:
  std::optional<boost::process::child> child_;
  std::string asked_;
  size_t next_ = 0;
  double since_ = 0;
  std::vector<std::string> answered_;
};

class Growth {
 public:
  explicit Growth(const LaunchOptions& options) : after_(options.grow_after), wait_(options.grow_after) {}

  // Called when an attempt begins; `grown`: with returned ranks.
  void begin(bool grown, double now_s);
  // Whether the attempt should end at a step boundary because ranks can return.
  bool due(const Membership& members, double now_s);
  // Hosts that are back; valid when due.
  const std::vector<std::string>& back() const { return back_; }
  // Called when the attempt lost ranks. True if the returned ranks failed in less time than the wait for
  // them; the next wait is twice as long.
  bool failed(double now_s);

 private:
  double after_, wait_, began_ = 0;
  bool grown_ = false;
  HostProbe probe_;
  std::vector<std::string> back_;
};

}  // namespace lockstep::launcher
