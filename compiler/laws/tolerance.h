// The only table of tolerances, by dtype. They never grow with size: a large tensor may not be more wrong
// than a small one.
#pragma once

#include <cmath>
#include <string>

#include "compiler/reference/host_tensor.h"
#include "core/base/text.h"

namespace lockstep::compiler::laws {

struct Tolerance {
  double relative = 0, absolute = 0;
};

// How far two evaluations of one op may differ: |a - b| <= absolute + relative |b|. Integers and bool must be
// equal.
inline Tolerance tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {1e-12, 1e-12};
    case DType::f32:
      return {1e-5, 1e-5};
    case DType::bf16:
      return {2e-2, 2e-2};
    case DType::f16:
      return {4e-3, 4e-3};
    default:
      return {};
  }
}
// How far a gradient may differ from a central difference of fourth order in f64.
inline Tolerance difference_tolerance() { return {1e-7, 1e-7}; }

inline bool near(double a, double b, Tolerance allowed) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= allowed.absolute + allowed.relative * std::fabs(b);
}

// "" if `a` equals `b` within the tolerance, else the first difference in words. dtypes and shapes must be
// equal.
inline std::string difference(const HostTensor& a, const HostTensor& b, Tolerance allowed) {
  if (a.dtype != b.dtype || a.shape != b.shape)
    return str(shape_text(a.dtype, a.shape), " where ", shape_text(b.dtype, b.shape), " is right");
  for (int64_t i = 0; i < a.size(); ++i) {
    const bool real = is_float(a.dtype) || is_float8(a.dtype);
    bool equal = real ? near(a.at(i), b.at(i), allowed) : a.int_at(i) == b.int_at(i);
    if (!equal)
      return str("element ", i, " of ", shape_text(a.dtype, a.shape), " is ", number_text(a.at(i)),
                 ", right is ", number_text(b.at(i)));
  }
  return "";
}
inline std::string difference(const HostTensor& a, const HostTensor& b) {
  return difference(a, b, tolerance(b.dtype));
}

}  // namespace lockstep::compiler::laws
