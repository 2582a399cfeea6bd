// Who looks at the plan of each step that a process compiles, before it is built.
#pragma once

#include <functional>

#include "compiler/program/step_plan.h"
#include "compiler/runtime/step.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// Called by compile() on every rank, before kernels are built and memory is taken; `lender` as there. What it
// throws on one rank ends compile() on all.
using PlanObserver = std::function<void(const StepPlan& plan, const State& state, const Step* lender)>;
// Of this process; an empty one: none. Set before anything is compiled.
void set_plan_observer(PlanObserver observer);

}  // namespace lockstep::compiler
