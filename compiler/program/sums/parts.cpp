// Refuses a sum of more addends than a device accepts.
#include "compiler/program/sums/parts.h"

#include "core/base/error.h"

namespace lockstep::compiler {

void check_addends(size_t addends, const SumPlan& plan) {
  if (addends <= plan.limits.sources) return;
  throw UserError(str("batch.lanes ", plan.lanes.lanes, " on ", plan.lanes.ranks, " data ranks leaves ",
                      addends, " partial sums of a gradient for one rank to add, and ", plan.limits.device,
                      " adds at most ", plan.limits.sources, "; set batch.lanes to at most ",
                      plan.limits.sources, " (a divisor of the ", plan.lanes.micro_batches,
                      " micro-batches), use fewer ranks, or set train.numerics to \"free\""));
}

}  // namespace lockstep::compiler
