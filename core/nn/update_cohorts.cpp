// Builds cohorts from the update counts of the state.
#include "core/nn/update_cohorts.h"

namespace lockstep {

namespace {
constexpr std::string_view kOf = "..";  // no part of a path is empty
}

void UpdateCohorts::add(const Parameter& moment, const State& state) {
  const int64_t updates = state.updates_of(moment.fqn());
  updates_[moment.fqn()] = updates;
  first_.emplace(updates, moment.fqn());
}

std::string UpdateCohorts::suffix(const Parameter& moment) const {
  const int64_t updates = updates_.at(moment.fqn());
  return updates == most() ? "" : std::string(kOf) + first_.at(updates);
}

std::string without_cohort(const std::string& scalar) { return scalar.substr(0, scalar.find(kOf)); }

}  // namespace lockstep
