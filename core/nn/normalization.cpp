// Norms over channels, and running statistics as assignments.
#include "core/nn/normalization.h"

#include "core/base/error.h"
#include "core/nn/assign.h"

namespace lockstep {

BatchNorm2d::BatchNorm2d(Scope at, int64_t channels, const BatchNormOptions& options, Here line)
    : weight(at.parameter("weight", {channels}, options.weight_init, line)),
      bias(at.parameter("bias", {channels}, init::zeros(), line)),
      running_mean(at.buffer("running_mean", DType::f32, {channels}, init::zeros(), line)),
      running_var(at.buffer("running_var", DType::f32, {channels}, init::ones(), line)),
      path_(at.path()),
      options_(options) {}

Tensor BatchNorm2d::operator()(Tensor x, Here at) const {
  InLayer layer(x, path_, at);
  Tensor w = weight.computed(x, at), b = bias.computed(x, at);
  if (Evaluation::active()) return batch_norm_by(x, running_mean(x), running_var(x), w, b, options_.eps, at);
  BatchNorm normed = batch_norm(x, w, b, options_.eps, at);
  const int64_t each = numel(x.shape()) / x.size(1);  // elements of a channel
  if (each < 2)
    throw UserError(str("[batch_norm] ", line_of(at, path_).text(), ": a channel of ", x.text(),
                        " has one element in a micro-batch, and so no variance; raise batch.micro "
                        "(micro_batch= of a program), or the size of the images"));
  Tensor batches = convert(sum_lanes(full(x, {}, 1, DType::i64)), DType::f32);
  auto follow = [&](const Parameter& running, Tensor now, double factor) {
    Tensor mean = sum_lanes(convert(now, DType::f32)) / batches;
    reassign(running, assigned(running, x) * (1 - options_.momentum) + mean * (options_.momentum * factor),
             at);
  };
  follow(running_mean, stop_gradient(normed.mean), 1);
  follow(running_var, stop_gradient(normed.variance),
         static_cast<double>(each) / static_cast<double>(each - 1));
  return normed.y;
}

GroupNorm::GroupNorm(Scope at, int64_t groups, int64_t channels, double eps, Here line)
    : path_(at.path()), groups_(groups), eps_(eps) {
  if (groups < 1 || channels % groups)
    throw UserError(str("[group_norm] ", line_of(line, path_).text(), ": ", groups, " groups do not divide ",
                        channels, " channels"));
  weight = at.parameter("weight", {channels}, init::ones(), line);
  bias = at.parameter("bias", {channels}, init::zeros(), line);
}
Tensor GroupNorm::operator()(Tensor x, Here at) const {
  InLayer layer(x, path_, at);
  Tensor w = weight.computed(x, at), b = bias.computed(x, at);
  return group_norm(x, groups_, w, b, eps_, at);
}

Tensor LayerNorm2d::operator()(Tensor x, Here at) const {
  return permute(norm_(permute(x, {0, 2, 3, 1}, at), at), {0, 3, 1, 2}, at);
}

}  // namespace lockstep
