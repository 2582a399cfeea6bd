// CountedScalars: the host scalars of a compiled step, each with the updates of the tensors that follow from
// it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/program/step_plan.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// Per host scalar that a step reads, the tensors of the state that it computes from it. Of the step as it was
// traced: later programs gather several tensors in one node.
std::map<std::string, std::vector<std::string>> tensors_of_scalars(const Graph& traced);

// A scalar as AdamW's 1 - b1^t counts the updates of the moments that are computed from it, or of those that
// belong to the weights that are; a step that is passed over makes none. Schedules count steps.
class CountedScalars {
 public:
  // The state must outlive it.
  CountedScalars(const StepPlan& plan, State& state);
  // Of this step. UserError where alike() is false.
  State::Scalars at(int64_t step) const;
  // Whether each scalar has one value for all of its tensors. Where tensors of one scalar have had different
  // numbers of updates, by another step or before a resumed run, the step is to be compiled again: it reads
  // a scalar for each then.
  bool alike() const;

 private:
  // Moments that one or several scalars are of, as all those of an optimizer: counted once a step for all.
  struct Cohort {
    std::vector<std::string> moments;
    mutable std::vector<const Array*> arrays;  // of the moments, once the state has memory
  };
  struct Counted {
    std::string name;     // as the program reads it
    std::string written;  // as its optimizer gives it
    size_t cohort = 0;    // its moments
  };
  std::vector<int64_t> updates_of(const Cohort& one) const;   // different ones, ascending
  std::string read(int64_t step, State::Scalars& out) const;  // what is unlike; "" for nothing
  State& state_;
  std::vector<Cohort> cohorts_;
  std::vector<Counted> scalars_;
};

}  // namespace lockstep::compiler
