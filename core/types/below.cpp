// Steps through the bits of a dtype, which for numbers of one sign are in the order of their magnitudes.
#include "core/types/below.h"

#include <cmath>
#include <limits>

namespace lockstep {

double below(double x, DType dtype) {
  char bytes[8];
  set_double(dtype, bytes, 0, x);
  const double nearest = get_double(dtype, bytes, 0);
  if (nearest < x) return nearest;
  if (dtype == DType::f64) return std::nextafter(nearest, -std::numeric_limits<double>::infinity());
  if (dtype == DType::f32)
    return std::nextafter(static_cast<float>(nearest), -std::numeric_limits<float>::infinity());
  const int64_t code = get_int(DType::u16, bytes, 0);
  set_int(DType::u16, bytes, 0, nearest > 0 ? code - 1 : nearest < 0 ? code + 1 : 0x8001);
  return get_double(dtype, bytes, 0);
}

double most_of_uniform(double lo, double hi, DType dtype) {
  return lo < hi ? below(hi, dtype == DType::f64 ? DType::f32 : dtype) : hi;
}

}  // namespace lockstep
