// MemoryCheck: checks that a program's compiled step fits before any memory is allocated.
#pragma once

#include <memory>

#include "compiler/compile/plan_observer.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep {

// A PlanObserver. UserError naming the parts of a step if its exact bytes exceed the free memory of the
// device, or of this host for all its ranks; a warning if only the bounds of libraries exceed it. For a
// second step only additional memory counts: bytes beyond the memory lent to it, and moments that are not yet
// on the host. Also reports ranks that a training step leaves without work.
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
