// The plan of a program's step, which no config tells.
#pragma once

#include <string>

#include "core/nn/state.h"
#include "launcher/config/run_config.h"
#include "launcher/machine/run_device.h"
#include "launcher/plan/request.h"
#include "launcher/trainer/paper_step.h"

namespace lockstep::launcher {

// What a step's plan says of the config that it would have: batch, mesh, precision.
RunConfig config_of_plan(const compiler::StepPlan& plan, const State& state, const std::string& name);

// The mesh of a plan, on paper: for `request.nproc` ranks, on hosts as the roofline has them.
LiveMesh mesh_of_plan(const PlanRequest& request, const Mesh& words, const FoundTarget& found);

struct ProgramPlan {
  std::string text;     // of `request.graph`: a StepGraph as JSON (step_graph.h)
  std::string refused;  // why a rank does not fit; else empty
};
// `evaluation`: beside the step in memory; null: none. UserError where `request.rank` is none of the ranks.
ProgramPlan plan_program(const PlanRequest& request, const compiler::StepPlan& plan,
                         const compiler::StepPlan* evaluation, const State& state, const FoundTarget& found);

}  // namespace lockstep::launcher
