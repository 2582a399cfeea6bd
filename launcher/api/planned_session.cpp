// PlannedSession: a program's answer to trainrun plan.
#include "launcher/api/planned_session.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "core/base/error.h"
#include "launcher/plan/program_plan.h"
#include "launcher/supervise/folders/run.h"

namespace lockstep {

using namespace launcher;

PlannedSession::PlannedSession(PlanRequest request, const Mesh& words, const std::string& device)
    : request_(std::move(request)),
      found_(found_target(device, request_.nproc)),
      mesh_(mesh_of_plan(request_, words, found_)) {}

void PlannedSession::answer(const compiler::StepPlan& plan, const compiler::StepPlan* evaluation,
                            const State& state) const {
  const ProgramPlan planned = plan_program(request_, plan, evaluation, state, found_);
  write_whole(request_.answer, planned.text);
  if (!planned.refused.empty()) throw UserError(planned.refused);
  std::fflush(nullptr);
  _exit(kExitOk);
}

}  // namespace lockstep
