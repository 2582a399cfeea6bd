// Plans a program's step, for which there is no config.
#pragma once

#include <string>

#include "core/nn/state.h"
#include "launcher/config/run_config.h"
#include "launcher/machine/run_device.h"
#include "launcher/plan/request.h"
#include "launcher/trainer/paper_step.h"

namespace lockstep::launcher {

// The config that a step's plan implies: batch, mesh, precision.
RunConfig config_of_plan(const compiler::StepPlan& plan, const State& state, const std::string& name);

// The mesh of a plan without processes: for `request.nproc` ranks on hosts of the roofline's size.
LiveMesh mesh_of_plan(const PlanRequest& request, const Mesh& words, const FoundTarget& found);

struct ProgramPlan {
  std::string text;     // for `request.graph`: a StepGraph as JSON (step_graph.h)
  std::string refused;  // why a rank does not fit; else empty
};
// `evaluation`: in memory together with the step; null: none. UserError when `request.rank` does not exist.
ProgramPlan plan_program(const PlanRequest& request, const compiler::StepPlan& plan,
                         const compiler::StepPlan* evaluation, const State& state, const FoundTarget& found);

}  // namespace lockstep::launcher
