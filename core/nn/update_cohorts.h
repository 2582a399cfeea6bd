// UpdateCohorts: tensors of one rule that have had as many updates. Scalars that count updates are theirs.
#pragma once

#include <map>
#include <string>

#include "core/nn/state.h"

namespace lockstep {

// As the state has them while a step is traced. Those that have had the most read a scalar by its own name;
// of others, as of a weight that joined a resumed run, each cohort reads one that is named behind its first
// moment, "optim.bias1..optim.head.weight.exp_avg".
class UpdateCohorts {
 public:
  void add(const Parameter& moment, const State& state);
  // What stands behind the name of a scalar of this moment's tensor: "" for the most.
  std::string suffix(const Parameter& moment) const;
  // Updates of this moment's tensor, and of those that have had the most.
  int64_t updates(const Parameter& moment) const { return updates_.at(moment.fqn()); }
  int64_t most() const { return first_.empty() ? 0 : first_.rbegin()->first; }

 private:
  std::map<std::string, int64_t> updates_;
  std::map<int64_t, std::string> first_;  // the first moment, by updates
};

// A scalar's name without what suffix() adds.
std::string without_cohort(const std::string& scalar);

}  // namespace lockstep
