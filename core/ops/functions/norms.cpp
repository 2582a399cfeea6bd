// Norms: the rows over the last dim, and those over channels as compositions.
#include "core/ops/functions/norms.h"

#include "core/ops/functions/checks.h"
#include "core/ops/functions/creation.h"
#include "core/ops/functions/operators.h"
#include "core/ops/functions/pointwise.h"
#include "core/ops/functions/reduce.h"
#include "core/ops/functions/shape.h"

namespace lockstep {

using namespace functions;

Tensor softmax(Tensor x, int dim, Here at) {
  need_floats("softmax", {x}, at);
  const int64_t d = dim_of("softmax", x, dim, at);
  if (d == x.ndim() - 1) return softmax(x, at);
  return rounded_once("softmax", x, at, [&](Tensor v) {
    Tensor e = exp(v - stop_gradient(max(v, {d}, true)));
    return e / sum(e, {d}, true);
  });
}
Tensor log_softmax(Tensor x, int dim, Here at) {
  need_floats("log_softmax", {x}, at);
  const int64_t d = dim_of("log_softmax", x, dim, at);
  return rounded_once("log_softmax", x, at, [&](Tensor v) {
    Tensor moved = v - stop_gradient(max(v, {d}, true));
    return moved - log(sum(exp(moved), {d}, true));
  });
}
Tensor normalize(Tensor x, double p, int dim, double eps, Here at) {
  need_floats("normalize", {x}, at);
  const int64_t d = dim_of("normalize", x, dim, at);
  return rounded_once("normalize", x, at, [&](Tensor v) {
    Tensor length = norm(v, p, {d}, true), least = full_like(length, eps);
    return v / where(length < least, least, length);
  });
}

Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps, Here at) {
  return apply(ops::layer_norm, {x, weight, bias}, {{"eps", eps}}, at)[0];
}
Tensor rms_norm(Tensor x, Tensor weight, double eps, Here at) {
  return apply(ops::rms_norm, {x, weight}, {{"eps", eps}}, at)[0];
}

namespace {
void need_channels(std::string_view name, const Tensor& x, const std::vector<Tensor>& vectors, Here at) {
  need_floats(name, {x}, at);
  if (x.ndim() < 2) refuse(name, {x}, at, str("input is ", x.text(), ", needs [batch, C, ...]"));
  for (const Tensor& v : vectors)
    if (v.defined() && (v.shape() != Shape{x.size(1)} || !is_float(v.dtype())))
      refuse(name, {x}, at,
             str("weight, bias or a statistic is ", v.text(), ", needs floats [", x.size(1),
                 "], one per channel of ", x.text()));
}
Tensor channels(Tensor v, Tensor like) { return broadcast_dims(convert(v, like.dtype()), like.shape(), {1}); }
Tensor scaled(Tensor y, Tensor weight, Tensor bias) {
  if (weight.defined()) y = y * channels(weight, y);
  return bias.defined() ? y + channels(bias, y) : y;
}
struct Moments {
  Tensor mean, variance, away;
};
Moments moments(Tensor x, const std::vector<int64_t>& dims) {
  Tensor m = mean(x, dims, true), away = x - m;
  return {m, mean(away * away, dims, true), away};
}
}  // namespace

Tensor group_norm(Tensor x, int64_t groups, Tensor weight, Tensor bias, double eps, Here at) {
  need_channels("group_norm", x, {weight, bias}, at);
  if (groups < 1 || x.size(1) % groups != 0)
    refuse("group_norm", {x}, at,
           str(groups, " groups do not divide the ", x.size(1), " channels of ", x.text()));
  return rounded_once("group_norm", x, at, [&](Tensor v) {
    Moments of = moments(reshape(v, {v.size(0), groups, numel(v.shape()) / (v.size(0) * groups)}), {2});
    return scaled(reshape(of.away * rsqrt(of.variance + eps), v.shape()), weight, bias);
  });
}
Tensor instance_norm(Tensor x, Tensor weight, Tensor bias, double eps, Here at) {
  need_channels("instance_norm", x, {weight, bias}, at);
  return group_norm(x, x.size(1), weight, bias, eps, at);
}
BatchNorm batch_norm(Tensor x, Tensor weight, Tensor bias, double eps, Here at) {
  need_channels("batch_norm", x, {weight, bias}, at);
  InFunction line(x, at);
  std::vector<int64_t> dims = all_dims(x);
  dims.erase(dims.begin() + 1);
  Moments of = moments(rules::wide(x), dims);
  Tensor y = scaled(of.away * rsqrt(of.variance + eps), weight, bias);
  const Shape each{x.size(1)};
  return {convert(y, x.dtype()), reshape(of.mean, each), reshape(of.variance, each)};
}
Tensor batch_norm_by(Tensor x, Tensor mean, Tensor variance, Tensor weight, Tensor bias, double eps,
                     Here at) {
  need("batch_norm", {x, mean, variance}, at);
  need_channels("batch_norm", x, {mean, variance, weight, bias}, at);
  return rounded_once("batch_norm", x, at, [&](Tensor v) {
    Tensor factor = rsqrt(convert(variance, v.dtype()) + eps);
    return scaled((v - channels(mean, v)) * channels(factor, v), weight, bias);
  });
}

}  // namespace lockstep
