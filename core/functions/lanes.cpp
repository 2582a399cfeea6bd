// Sums float counts as integers, whose sum does not depend on the order. A count is cut into integer digits
// of 40 bits; the digits are summed exactly over all micro-batches and put together again.
#include "core/functions/lanes.h"

#include <cmath>

#include "core/functions/creation.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

Tensor sum_counts(Tensor count, Here at) {
  need("sum_counts", {count}, at);
  if (count.ndim() != 0 || (count.dtype() != DType::i64 && !is_float(count.dtype())))
    refuse("sum_counts", {count}, at,
           str("the count is ", count.text(), ", needs i64[] or floats of rank 0"));
  if (count.dtype() == DType::i64) return sum_lanes(count, at);
  InFunction line(count, at);
  const Tensor c = convert(count, DType::f64), size = abs(c);
  // A count that the digits cannot represent makes the result NaN.
  const Tensor held = size < 0x1p120 && (size >= 0x1p-126 || trunc(c * 0x1p160) == c * 0x1p160);
  Tensor left = where(held, c, full_like(c, 0)), total;
  auto sum_of = [](Tensor part) { return convert(sum_lanes(convert(part, DType::i64)), DType::f64); };
  // Digits of 40 bits, from the highest; each is subtracted from the rest, which is exact.
  for (int exponent = 80; exponent >= -160; exponent -= 40) {
    const Tensor digit = trunc(left * std::ldexp(1.0, -exponent));
    const Tensor sum = sum_of(digit) * std::ldexp(1.0, exponent);
    left = left - digit * std::ldexp(1.0, exponent);
    total = total.defined() ? total + sum : sum;
  }
  // If the sum, or its inverse, is not a normal f32 number, quotients by it would be wrong.
  const Tensor all = abs(total), far = all >= 0x1p126 || (all != 0.0 && all < 0x1p-126);
  const Tensor wrong = sum_of(convert(!held, DType::f64)) + convert(far, DType::f64);
  return total + sqrt(0.0 - wrong);  // 0, or NaN
}

}  // namespace lockstep
