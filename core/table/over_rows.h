// Numbers of rows next to the rows: how norms and losses spread a statistic.
#pragma once

#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep::rules {

// All dims but the last, and a number of each row repeated along it.
inline std::vector<int64_t> leading(const Tensor& x) { return functions::counted(0, x.ndim() - 1); }
inline Tensor over_rows(Tensor numbers, Tensor like) {
  return broadcast_dims(numbers, like.shape(), leading(like));
}

}  // namespace lockstep::rules
