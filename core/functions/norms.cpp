// Norms: nodes for norms over the last dim, compositions for those over channels.
#include "core/functions/norms.h"

#include <algorithm>

#include "core/functions/creation.h"
#include "core/functions/gradients.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/reduce.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

Tensor softmax(Tensor x, int dim, Here at) {
  need_floats("softmax", {x}, at);
  const int64_t d = dim_of("softmax", x, dim, at);
  if (d == x.ndim() - 1) return softmax(x, at);
  return rounded_once("softmax", x, at, [&](Tensor v) {
    if (numel(v.shape()) == 0) return v;
    Tensor e = exp(v - stop_gradient(max(v, {d}, true)));
    return e / sum(e, {d}, true);
  });
}
Tensor softmin(Tensor x, int dim, Here at) {
  need_floats("softmin", {x}, at);
  const int d = static_cast<int>(dim_of("softmin", x, dim, at));
  InFunction line(x, at);
  return softmax(-x, d);
}
Tensor log_softmax(Tensor x, int dim, Here at) {
  need_floats("log_softmax", {x}, at);
  const int64_t d = dim_of("log_softmax", x, dim, at);
  return rounded_once("log_softmax", x, at, [&](Tensor v) {
    if (numel(v.shape()) == 0) return v;
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
// The moments of channels with one read of x, where `moments` reads it twice. x is first shifted by the mean
// of the first samples; the variance is then the mean of squares minus the square of the mean. These samples
// are at least a 16th of all, so their mean is at most 4 deviations from the mean of all, and the difference
// loses at most 4 bits. (Chan, Golub and LeVeque, 1983.)
Moments channel_moments(Tensor x, const std::vector<int64_t>& dims) {
  constexpr int64_t kPart = 16;
  if (x.size(0) < 2) return moments(x, dims);
  const Tensor near = mean(slice(x, 0, 0, (x.size(0) + kPart - 1) / kPart), dims, true);
  const Tensor d = x - near, m = mean(d, dims, true), all = near + m;
  return {all, mean(d * d, dims, true) - m * m, x - all};
}
// (x - mean over `dims`) / deviation * weight + bias (per channel, or empty). The gradient is written by hand
// with two sums in one pass (Ioffe and Szegedy, section 3); the chain rule would read x and the gradient once
// more.
Tensor normalized(const Tensor& x, const Moments& of, const std::vector<int64_t>& dims, const Tensor& weight,
                  const Tensor& bias, double eps) {
  const double count = static_cast<double>(numel(x.shape())) /
                       static_cast<double>(std::max<int64_t>(1, numel(of.mean.shape())));
  const Tensor rstd = rsqrt(of.variance + eps);
  auto channel = [&](const Tensor& v) { return reshape(convert(v, x.dtype()), of.mean.shape()); };
  const Tensor scale = weight.defined() ? rstd * channel(weight) : rstd;
  std::vector<Tensor> inputs{x};
  if (weight.defined()) inputs.push_back(weight);
  if (bias.defined()) inputs.push_back(bias);
  return custom_gradient(
      [&](const std::vector<Tensor>&) {
        const Tensor y = of.away * scale;
        return Computed{{bias.defined() ? y + channel(bias) : y}};
      },
      [&](const std::vector<Tensor>&, const std::vector<Tensor>& dy) {
        const Tensor all = sum(dy[0], dims, true), along = sum(dy[0] * of.away, dims, true);
        std::vector<Tensor> out{dy[0] * scale - scale * all / count -
                                of.away * (scale * rstd * rstd * along / count)};
        auto add = [&](const Tensor& sum_of, const Tensor& like) {
          out.push_back(convert(reshape(sum_of, like.shape()), like.dtype()));
        };
        if (weight.defined()) add(along * rstd, weight);
        if (bias.defined()) add(all, bias);
        return out;
      })(inputs)[0];
}
}  // namespace

Tensor group_norm(Tensor x, int64_t groups, Tensor weight, Tensor bias, double eps, Here at) {
  need_channels("group_norm", x, {weight, bias}, at);
  if (groups < 1 || x.size(1) % groups != 0)
    refuse("group_norm", {x}, at,
           str(groups, " groups do not divide the ", x.size(1), " channels of ", x.text()));
  return rounded_once("group_norm", x, at, [&](Tensor v) {
    const Tensor grouped = reshape(v, {v.size(0), groups, numel(v.shape()) / (v.size(0) * groups)});
    const Tensor y = normalized(grouped, moments(grouped, {2}), {2}, {}, {}, eps);
    return scaled(reshape(y, v.shape()), weight, bias);
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
  const Tensor v = rules::wide(x);
  const Moments of = channel_moments(v, dims);
  const Tensor y = normalized(v, of, dims, weight, bias, eps);
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
