// CountedScalars: the host scalars of a compiled step, each with the update counts of the tensors that are
// computed from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/program/build/step_plan.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// Per host scalar of a step, the tensors of the state that the step computes from it. Uses the traced graph,
// because later programs gather several tensors in one node.
std::map<std::string, std::vector<std::string>> tensors_of_scalars(const Graph& traced);

// A scalar such as AdamW's 1 - b1^t counts updates: those of the moments computed from it, or of the moments
// of the weights computed from it. A skipped step does not count. Schedules count steps.
class CountedScalars {
 public:
  // The state must outlive it.
  CountedScalars(const StepPlan& plan, State& state);
  // The scalars of this step. UserError if alike() is false.
  State::Scalars at(int64_t step) const;
  // Whether each scalar has one value for all of its tensors. Tensors of one scalar may have different update
  // counts, through another step or from before a resumed run. The step must then be compiled again, and
  // reads one scalar for each count.
  bool alike() const;

 private:
  // Moments that share one or several scalars, such as all moments of an optimizer; their updates are counted
  // once per step.
  struct Cohort {
    std::vector<std::string> moments;
    mutable std::vector<const Array*> arrays;  // of the moments, once the state has memory
  };
  struct Counted {
    std::string name;     // as the program names it
    std::string written;  // as its optimizer names it
    size_t cohort = 0;    // its moments
  };
  std::vector<int64_t> updates_of(const Cohort& one) const;   // the distinct counts, ascending
  std::string read(int64_t step, State::Scalars& out) const;  // returns what differs; "" for nothing
  State& state_;
  std::vector<Cohort> cohorts_;
  std::vector<Counted> scalars_;
};

}  // namespace lockstep::compiler
