// Float counts as integers, whose sum has no order.
#include "core/ops/functions/lanes.h"

#include "core/ops/functions/checks.h"
#include "core/ops/functions/operators.h"
#include "core/ops/functions/pointwise.h"

namespace lockstep {

using namespace functions;

Tensor sum_counts(Tensor count, Here at) {
  need("sum_counts", {count}, at);
  if (count.ndim() != 0 || (count.dtype() != DType::i64 && !is_float(count.dtype())))
    refuse("sum_counts", {count}, at,
           str("the count is ", count.text(), ", needs i64[] or floats of rank 0"));
  if (count.dtype() == DType::i64) return sum_lanes(count, at);
  InFunction line(count, at);
  Tensor c = convert(count, DType::f64), whole = floor(c);
  auto sum_of = [](Tensor part) { return convert(sum_lanes(convert(part, DType::i64)), DType::f64); };
  Tensor total = sum_of(whole) + sum_of((c - whole) * 0x1p40) * 0x1p-40;
  return total + sqrt(0.0 - sum_of(convert(!isfinite(c), DType::f64)));  // 0, or NaN
}

}  // namespace lockstep
