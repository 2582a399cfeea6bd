// Metrics: numbers of a step that the host reads.
#pragma once

#include <string>

#include "core/functions/losses.h"
#include "core/ops/tensor.h"

namespace lockstep {

// The step reports `value` as `name`. UserError when it is not a scalar (rank 0) or the name is taken.
void metric(const std::string& name, Tensor value, Here at = Here::current());
// The step reports sum / count over all its micro-batches on all ranks, with the same bits on any number of
// ranks. For a sum of losses it reports the sum of these quotients. Sums of whole numbers below 2^24 are
// exact. UserError as above.
void metric(const std::string& name, const Loss& mean, Here at = Here::current());

}  // namespace lockstep
