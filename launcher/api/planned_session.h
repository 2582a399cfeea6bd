// PlannedSession: a program started by trainrun plan: it has no real ranks, and plans instead of running the
// first step.
#pragma once

#include <memory>
#include <string>

#include "compiler/compile/plan_observer.h"
#include "core/mesh/array.h"
#include "launcher/machine/run_device.h"
#include "launcher/plan/request.h"

namespace lockstep {

// A PlanObserver that does not return: it writes the plan of the first step to the requested file and ends
// the process.
class PlannedSession {
 public:
  PlannedSession(launcher::PlanRequest request, const Mesh& words, const std::string& device);
  const LiveMesh& mesh() const { return mesh_; }
  const compiler::Target& target() const { return found_.target; }
  void operator()(const compiler::StepPlan& plan, const State& state, const compiler::Step*) const {
    answer(plan, nullptr, state);
  }
  // The evaluation that is in memory with the step; null: none.
  [[noreturn]] void answer(const compiler::StepPlan& plan, const compiler::StepPlan* evaluation,
                           const State& state) const;

 private:
  launcher::PlanRequest request_;
  launcher::FoundTarget found_;
  LiveMesh mesh_;
};

}  // namespace lockstep
