// From a body to its plan.
#pragma once

#include <optional>
#include <string>

#include "compiler/codegen/loops/plan.h"

namespace lockstep::compiler::codegen {

// The plan, or the reason why the body does not fit one space.
struct PlanResult {
  std::optional<Plan> plan;
  std::string reason;
};
// `body` has primitives only (pointwise, creation, random, reduce, view, take) and must outlive the plan.
PlanResult plan_body(const Graph& body);

}  // namespace lockstep::compiler::codegen
