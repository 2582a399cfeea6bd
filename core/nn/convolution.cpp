// Convolution layers: shapes and initial values of their weights.
#include "core/nn/convolution.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace lockstep {

namespace {
using List = std::vector<int64_t>;

// [rows, channels / groups, kernel...].
Shape weight_shape(const Scope& at, size_t dims, int64_t in, int64_t out, List kernel, int64_t groups,
                   bool transposed, Here line) {
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[convolution] ", line_of(line, at.path()).text(), ": ", what));
  };
  if (kernel.size() == 1) kernel.resize(dims, kernel[0]);
  if (kernel.size() != dims)
    refuse(str("kernel ", kernel, " for ", dims, " spatial dims: give one number for all, or one per dim"));
  if (std::any_of(kernel.begin(), kernel.end(), [](int64_t n) { return n < 1; }))
    refuse(str("kernel ", kernel, ": each size is 1 or more"));
  if (in < 1 || out < 1) refuse(str("channels are ", in, " and ", out, ": both are 1 or more"));
  if (groups < 1 || in % groups != 0 || out % groups != 0)
    refuse(str("groups are ", groups, ", channels ", in, " and ", out, ": groups divide both"));
  Shape shape = transposed ? Shape{in, out / groups} : Shape{out, in / groups};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  return shape;
}
// This is the deviation of PyTorch's default, uniform in +-1 / sqrt(fan_in); fan_in is the product of all
// dims but the first.
Init weight_init(const std::optional<Init>& given, const Shape& shape) {
  if (given) return *given;
  return init::normal(1.0 / std::sqrt(3.0 * static_cast<double>(numel({shape.begin() + 1, shape.end()}))));
}
}  // namespace

Convolution::Convolution(Scope at, size_t dims, int64_t in, int64_t out, List kernel, ConvolutionOptions how,
                         bool with_bias, std::optional<Init> start, Here line)
    : path_(at.path()), how_(std::move(how)) {
  const Shape shape = weight_shape(at, dims, in, out, std::move(kernel), how_.groups, false, line);
  weight = at.parameter("weight", shape, weight_init(start, shape), line);
  if (with_bias) bias = at.parameter("bias", {out}, init::zeros(), line);
}
Tensor Convolution::operator()(Tensor x, Here at) const {
  InLayer layer(x, path_, at);
  Tensor w = weight.computed(x, at), b = bias ? bias.computed(x, at) : Tensor();
  return convolution(x, w, b, how_, at);
}

TransposedConvolution::TransposedConvolution(Scope at, size_t dims, int64_t in, int64_t out, List kernel,
                                             TransposedOptions how, bool with_bias, std::optional<Init> start,
                                             Here line)
    : path_(at.path()), how_(std::move(how)) {
  const Shape shape = weight_shape(at, dims, in, out, std::move(kernel), how_.groups, true, line);
  weight = at.parameter("weight", shape, weight_init(start, shape), line);
  if (with_bias) bias = at.parameter("bias", {out}, init::zeros(), line);
}
Tensor TransposedConvolution::operator()(Tensor x, Here at) const {
  InLayer layer(x, path_, at);
  Tensor w = weight.computed(x, at), b = bias ? bias.computed(x, at) : Tensor();
  return convolution_transposed(x, w, b, how_, at);
}

}  // namespace lockstep
