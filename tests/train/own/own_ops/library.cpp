// A library of ops from outside: a pointwise one as scalar code, and sums along rows as C++ source, whose
// gradient is the op itself from the other end.
#include <numeric>

#include "lockstep.h"

namespace {
using namespace lockstep;

Sample floats(std::vector<Shape> shapes, Attrs attrs = {}) {
  Sample out;
  for (Shape& shape : shapes) out.in.push_back({DType::f32, std::move(shape)});
  out.attrs = std::move(attrs);
  return out;
}

constexpr const char* kScan = R"(
OWN_FN void run(const Tensor* in, const Tensor* out, const double* attrs, i64 row) {
  const i64 width = in[0].shape[in[0].rank - 1], reverse = attrs[0] != 0;
  const real* x = (const real*)in[0].data + row * width;
  real* y = (real*)out[0].data + row * width;
  real sum = 0;
  for (i64 i = 0; i < width; ++i) {
    const i64 k = reverse ? width - 1 - i : i;
    y[k] = sum = sum + x[k];
  }
})";

std::vector<DoubleTensor> scan(const std::vector<DoubleTensor>& in, const Attrs& attrs) {
  DoubleTensor out = in[0];
  const auto width = static_cast<std::ptrdiff_t>(out.shape.back());
  for (auto row = out.values.begin(); row != out.values.end(); row += width) {
    if (attrs.flag("reverse")) std::reverse(row, row + width);
    std::partial_sum(row, row + width, row);
    if (attrs.flag("reverse")) std::reverse(row, row + width);
  }
  return {out};
}
}  // namespace

LOCKSTEP_OP_LIBRARY {
  register_op(
      {.name = "mine::cube",
       .scalar = "{0} * {0} * {0}",
       .cost = 2,
       .formula = [](std::span<const double> x, const Attrs&) { return x[0] * x[0] * x[0]; },
       .gradient =
           [](const VjpContext& c) { return std::vector<Tensor>{c.grad[0] * c.in[0] * c.in[0] * 3.0}; },
       .samples = {floats({{3, 5}}), floats({{2, 1, 17}})}});
  register_op(
      {.name = "mine::scan",
       .attrs = {{"reverse", AttrType::flag}},
       .dtypes = {DType::f32, DType::f64},
       .placement = "rows",
       .cpp = kScan,
       .cuda = kScan,
       .formula_of_all = scan,
       .gradient =
           [](const VjpContext& c) {
             return apply(intern("mine::scan"), {c.grad[0]}, {{"reverse", !c.attrs.flag("reverse")}});
           },
       .samples = {floats({{3, 5}}, {{"reverse", false}}), floats({{2, 1, 17}}, {{"reverse", true}})}});
}
