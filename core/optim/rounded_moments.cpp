// Stochastic rounding as arithmetic on bits.
#include "core/optim/rounded_moments.h"

#include <cmath>

namespace lockstep {

namespace {
constexpr double kLargest = 0x1.FEp127;  // of bf16: larger numbers are rounded to nearest

// A hash in which each bit of the result depends on each bit of the input: xor of shifts, and products with
// odd numbers.
Tensor mixed(Tensor h) {
  auto number = [&](double value) { return full_like(h, value); };
  auto down = [&](int bits) { return bitwise_right_shift(h, number(bits)); };
  h = bitwise_xor(h, down(16));
  h = h * number(0x7feb352d);
  h = bitwise_xor(h, down(15));
  h = h * number(0x846ca68b);
  return bitwise_xor(h, down(16));
}
}  // namespace

Tensor round_at_random(Tensor x, Tensor beside, Tensor salt, Here at) {
  const SourceLine here = line_of(at);
  const AtLine line(here);
  const Tensor bits = bitcast(x, DType::u32);
  const Tensor step = broadcast_to(bitcast(salt, DType::u32), x.shape());
  Tensor draw = mixed(bitwise_xor(bits, step));
  draw = mixed(bitwise_xor(draw, bitcast(beside, DType::u32)));
  const Tensor low = bitwise_and(draw, full_like(draw, 0xffff));
  const Tensor kept = bitwise_and(bits + low, full_like(bits, 0xffff0000));
  const Tensor finite = abs(x) <= kLargest;
  return convert(where(finite, bitcast(kept, DType::f32), x), DType::bf16);
}

double rounding_salt(int64_t step) {
  auto h = static_cast<uint64_t>(step) * 0x9E3779B97F4A7C15u;
  h ^= h >> 29;
  return 1.0 + std::ldexp(static_cast<double>((h * 0xBF58476D1CE4E5B9u) >> 41), -23);
}

}  // namespace lockstep
