// The plan observer: sees the plan of each step that a process compiles, before the step is built.
#pragma once

#include <functional>

#include "compiler/program/build/step_plan.h"
#include "compiler/runtime/step.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

// compile() calls it on every rank, before kernels are built and memory is allocated; `lender` is that of
// compile(). An exception on one rank ends compile() on all.
using PlanObserver = std::function<void(const StepPlan& plan, const State& state, const Step* lender)>;
// Sets the observer of this process; an empty one: none. Call it before anything is compiled.
void set_plan_observer(PlanObserver observer);

}  // namespace lockstep::compiler
