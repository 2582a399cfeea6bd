// Reductions with dims counted from either end, and statistics composed of them.
#include "core/functions/reduce.h"

#include <cmath>
#include <limits>

#include "core/functions/creation.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
using Dims = std::vector<int64_t>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Shape kept(const Tensor& x, const Dims& dims) {
  Shape shape = x.shape();
  for (int64_t dim : dims) shape[dim] = 1;
  return shape;
}
Tensor reduce(OpId op, Tensor x, Dims dims, bool keep, Here at) {
  need(op.name(), {x}, at);
  if (dims.empty()) return x;
  dims = dims_of(op.name(), x, dims, at);
  Tensor out = apply1(op, {x}, {{"dims", dims}}, at);
  return keep ? reshape(out, kept(x, dims), at) : out;
}
Dims every(std::string_view name, const TensorAt& x) {
  need(name, {x.tensor}, x.at);
  return all_dims(x.tensor);
}
double count_of(const Tensor& x, const Dims& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= x.shape()[dim];
  return static_cast<double>(count);
}
Tensor arg(OpId op, Tensor x, int dim, bool keep, Here at) {
  need(op.name(), {x}, at);
  const int64_t d = dim_of(op.name(), x, dim, at);
  Tensor out = apply1(op, {x}, {{"dim", d}}, at);
  return keep ? reshape(out, kept(x, {d}), at) : out;
}
// The square root of x >= 0, with gradient 0 at 0.
Tensor safe_sqrt(Tensor x) {
  Tensor none = x == 0;
  return where(none, x, sqrt(where(none, full_like(x, 1), x)));
}
Tensor variance(Tensor x, const Dims& dims, double correction, bool keep) {
  Tensor away = x - mean(x, dims, true);
  return sum(away * away, dims, keep) / (count_of(x, dims) - correction);
}
}  // namespace

Tensor sum(Tensor x, Dims dims, bool keep, Here at) { return reduce(ops::sum, x, std::move(dims), keep, at); }
Tensor prod(Tensor x, Dims dims, bool keep, Here at) {
  return reduce(ops::prod, x, std::move(dims), keep, at);
}
Tensor max(Tensor x, Dims dims, bool keep, Here at) { return reduce(ops::max, x, std::move(dims), keep, at); }
Tensor min(Tensor x, Dims dims, bool keep, Here at) { return reduce(ops::min, x, std::move(dims), keep, at); }
Tensor sum(TensorAt x) { return sum(x.tensor, every("sum", x), false, x.at); }
Tensor prod(TensorAt x) { return prod(x.tensor, every("prod", x), false, x.at); }
Tensor max(TensorAt x) { return max(x.tensor, every("max", x), false, x.at); }
Tensor min(TensorAt x) { return min(x.tensor, every("min", x), false, x.at); }

Tensor any(Tensor x, Dims dims, bool keep, Here at) {
  need("any", {x}, at);
  dims = dims_of("any", x, dims, at);
  if (count_of(x, dims) == 0) return sum(convert(x, DType::i64, at), dims, keep, at) != 0;
  return max(convert(x, DType::boolean, at), dims, keep, at);
}
Tensor all(Tensor x, Dims dims, bool keep, Here at) {
  need("all", {x}, at);
  return logical_not(any(logical_not(x, at), std::move(dims), keep, at), at);
}
Tensor any(TensorAt x) { return any(x.tensor, every("any", x), false, x.at); }
Tensor all(TensorAt x) { return all(x.tensor, every("all", x), false, x.at); }
Tensor argmax(Tensor x, int dim, bool keep, Here at) { return arg(ops::argmax, x, dim, keep, at); }
Tensor argmin(Tensor x, int dim, bool keep, Here at) { return arg(ops::argmin, x, dim, keep, at); }

Tensor mean(Tensor x, Dims dims, bool keep, Here at) {
  need_floats("mean", {x}, at);
  x = under_policy("mean", x, at);
  dims = dims_of("mean", x, dims, at);
  Tensor total = sum(convert(x, rules::statistic(x.dtype()), at), dims, keep, at);
  return convert(apply1(ops::div, {total, full_like(total, count_of(x, dims), at)}, {}, at), x.dtype(), at);
}
Tensor mean(TensorAt x) { return mean(x.tensor, every("mean", x), false, x.at); }
Tensor var(Tensor x, Dims dims, double correction, bool keep, Here at) {
  need_floats("var", {x}, at);
  dims = dims_of("var", x, dims, at);
  return rounded_once("var", x, at, [&](Tensor v) { return variance(v, dims, correction, keep); });
}
Tensor var(TensorAt x) { return var(x.tensor, every("var", x), 1, false, x.at); }
Tensor stddev(Tensor x, Dims dims, double correction, bool keep, Here at) {
  need_floats("stddev", {x}, at);
  dims = dims_of("stddev", x, dims, at);
  return rounded_once("stddev", x, at,
                      [&](Tensor v) { return safe_sqrt(variance(v, dims, correction, keep)); });
}
Tensor stddev(TensorAt x) { return stddev(x.tensor, every("stddev", x), 1, false, x.at); }

Tensor norm(Tensor x, double p, Dims dims, bool keep, Here at) {
  need_floats("norm", {x}, at);
  dims = dims_of("norm", x, dims, at);
  return rounded_once("norm", x, at, [&](Tensor v) {
    if (p == 2) return safe_sqrt(sum(v * v, dims, keep));
    if (p == 0) return sum(convert(v != 0, v.dtype()), dims, keep);
    Tensor a = abs(v);
    if (p == 1) return sum(a, dims, keep);
    if (std::isinf(p)) return p > 0 ? max(a, dims, keep) : min(a, dims, keep);
    Tensor some = a != 0, powers = pow(where(some, a, full_like(a, 1)), p);
    Tensor total = sum(where(some, powers, full_like(a, p > 0 ? 0 : kInfinity)), dims, keep);
    Tensor none = total == 0;
    return where(none, total, pow(where(none, full_like(total, 1), total), 1 / p));
  });
}
Tensor norm(Tensor x, double p, Here at) {
  need_floats("norm", {x}, at);
  return norm(x, p, all_dims(x), false, at);
}
Tensor logsumexp(Tensor x, Dims dims, bool keep, Here at) {
  need_floats("logsumexp", {x}, at);
  dims = dims_of("logsumexp", x, dims, at);
  return rounded_once("logsumexp", x, at, [&](Tensor v) {
    if (numel(v.shape()) == 0) return log(sum(exp(v), dims, keep));
    Tensor most = stop_gradient(max(v, dims, true));
    most = where(isfinite(most), most, full_like(most, 0));
    Tensor lse = log(sum(exp(v - most), dims, true)) + most;
    if (keep) return lse;
    Shape shape;
    for (int64_t d : rules::free_dims(v.shape().size(), dims)) shape.push_back(v.shape()[d]);
    return reshape(lse, shape);
  });
}

}  // namespace lockstep
