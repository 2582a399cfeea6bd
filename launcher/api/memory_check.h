// MemoryCheck: whether what a program compiles fits in memory, before it takes any.
#pragma once

#include <memory>

#include "compiler/plan_observer.h"
#include "launcher/supervise/contract.h"

namespace lockstep {

// A PlanObserver. Of a step: UserError naming the parts where what is known to the byte does not fit in what
// is free of the device, or of this host for all its ranks; a warning where only the bounds of what libraries
// take do not. A second step is beside what the first one has taken already: what it takes beyond the memory
// that is lent to it, and of moments that it moves to the host, those that do not lie there yet. Ranks for
// which a step that trains has no work are told.
class MemoryCheck {
 public:
  MemoryCheck(const launcher::WorkerPlace& at, const compiler::Target& target) : at_(at), target_(&target) {}
  void operator()(const compiler::StepPlan& plan, const State& state, const compiler::Step* lender) const;

 private:
  void check_host(const compiler::StepPlan& plan, const State& state, const compiler::Step* lender) const;
  void check_device(const compiler::StepPlan& plan, const State& state, const compiler::Step* lender) const;

  launcher::WorkerPlace at_;
  const compiler::Target* target_;
};

}  // namespace lockstep
