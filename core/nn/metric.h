// Metrics: numbers of a step that the host reads.
#pragma once

#include <string>

#include "core/ops/tensor.h"

namespace lockstep {

// The step reports `value` as `name`. UserError when it is no scalar (rank 0) or the name is taken.
void metric(const std::string& name, Tensor value, Here at = Here::current());

}  // namespace lockstep
