// UpdateCohorts: groups the tensors of one rule by their number of updates, since scalars such as Adam's bias
// correction depend on it.
#pragma once

#include <map>
#include <string>

#include "core/nn/state.h"

namespace lockstep {

// Cohorts are taken from the state when a step is traced. The cohort with the most updates reads a scalar by
// its plain name. Each other cohort, such as weights that joined a resumed run, has its own scalar. Its first
// moment is the suffix of the name: "optim.bias1..optim.head.weight.exp_avg".
class UpdateCohorts {
 public:
  void add(const Parameter& moment, const State& state);
  // The suffix of a scalar's name for this moment's tensor; "" in the cohort with the most updates.
  std::string suffix(const Parameter& moment) const;
  // The number of updates of this moment's tensor, and the largest number of all.
  int64_t updates(const Parameter& moment) const { return updates_.at(moment.fqn()); }
  int64_t most() const { return first_.empty() ? 0 : first_.rbegin()->first; }

 private:
  std::map<std::string, int64_t> updates_;
  std::map<int64_t, std::string> first_;  // the first moment, by updates
};

// A scalar's name without the suffix.
std::string without_cohort(const std::string& scalar);

}  // namespace lockstep
