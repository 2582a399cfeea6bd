// Growth: when a run that goes on without some of its ranks gets them back. Ranks of a host that is there can
// be had again at any time; a host that was lost is asked by ssh.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/process/child.hpp>

#include "launcher/supervise/membership.h"

namespace lockstep::launcher {

// Asks hosts, one after another, whether `ssh HOST true` works again (or what OMPI_MCA_plm_rsh_agent names in
// its place). Never waits.
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

  // An attempt begins; `grown`: with ranks that were taken back.
  void begin(bool grown, double now_s);
  // Whether the attempt is to end at a step boundary because ranks can be had again.
  bool due(const Membership& members, double now_s);
  // Hosts that are back, when it is due.
  const std::vector<std::string>& back() const { return back_; }
  // The attempt lost ranks. True: it was one that had just taken ranks back, which did not last as long as
  // they were waited for; the next wait is twice as long.
  bool failed(double now_s);

 private:
  double after_, wait_, began_ = 0;
  bool grown_ = false;
  HostProbe probe_;
  std::vector<std::string> back_;
};

}  // namespace lockstep::launcher
