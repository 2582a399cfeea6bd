// DCGAN: noise to an image by transposed convolutions, an image to one logit by convolutions; BatchNorm.
// Radford et al., arXiv 1511.06434.
//
// Shapes: Z = latent, W = width, n = log2(size) - 3 stages in the middle. FQNs are those of PyTorch's
// example below "generator" and "discriminator".
//
//   generator.main.0.weight [Z,W 2^n,4,4]       generator.main.1.* (a norm)
//   generator.main.(3I).weight [W 2^(n-I+1),W 2^(n-I),4,4]   generator.main.(3I+1).*, I = 1 ... n
//   generator.main.(3n+3).weight [W,channels,4,4]            (then tanh: images lie in [-1, 1])
//   discriminator.main.0.weight [W,channels,4,4]
//   discriminator.main.(3I-1).weight [W 2^I,W 2^(I-1),4,4]   discriminator.main.(3I).*, I = 1 ... n
//   discriminator.main.(3n+2).weight [1,W 2^n,4,4]
//
// A norm's * is weight, bias, running_mean, running_var. Initialisation, the original's: weights normal 0.02,
// those of norms around 1; biases 0. The discriminator's norms normalise real and generated images
// separately, and update the running statistics by both in turn.
#include "core/base/error.h"
#include "core/models/families.h"
#include "core/models/image_options.h"
#include "core/nn/convolution.h"
#include "core/nn/normalization.h"

namespace lockstep::models {

namespace {
struct DcganOptions : ImageOptions {
  int64_t latent = key(&latent, "latent", 100, "numbers that an image is made from", between(1, 0x1p20));
  int64_t width =
      key(&width, "width", 64, "channels of the layers next to the images; each half size has twice as many",
          between(1, 0x1p16));
};
int64_t stages(int64_t size) {
  int64_t n = 0;
  while (size > 8) size /= 2, ++n;
  return n;
}
const Init kWeights = init::normal(0.02);
BatchNorm2d norm(const Scope& at, int64_t channels) {
  return {at, channels, {.weight_init = init::normal(0.02, 1)}};
}

class Generator {
 public:
  explicit Generator(const Scope& at, const DcganOptions& o) {
    int64_t in = o.latent, number = 0;
    for (int64_t stage = stages(o.size); stage >= -1; --stage) {
      const int64_t out = stage < 0 ? o.channels : o.width << stage;
      TransposedOptions how{.stride = {number ? 2 : 1}, .padding = {number ? 1 : 0}};
      grow_.emplace_back(at / number, in, out, std::vector<int64_t>{4}, how, false, kWeights);
      if (stage >= 0) norms_.push_back(norm(at / (number + 1), out));
      in = out, number += 3;
    }
  }
  Tensor operator()(Tensor noise) const {  // [B,Z] -> [B,channels,size,size]
    Tensor x = reshape(noise, {noise.size(0), noise.size(1), 1, 1});
    for (size_t i = 0; i < norms_.size(); ++i) x = relu(norms_[i](grow_[i](x)));
    return tanh(grow_.back()(x));
  }

 private:
  std::vector<ConvTranspose2d> grow_;
  std::vector<BatchNorm2d> norms_;
};

class Discriminator {
 public:
  Discriminator(const Scope& at, const DcganOptions& o) : options_(o) {
    const int64_t n = stages(o.size);
    auto add = [&](int64_t number, int64_t in, int64_t out, int64_t stride, int64_t padding) {
      shrink_.emplace_back(at / number, in, out, std::vector<int64_t>{4},
                           ConvolutionOptions{.stride = {stride}, .padding = {padding}}, false, kWeights);
    };
    add(0, o.channels, o.width, 2, 1);
    for (int64_t i = 1; i <= n; ++i) {
      add(3 * i - 1, o.width << (i - 1), o.width << i, 2, 1);
      norms_.push_back(norm(at / (3 * i), o.width << i));
    }
    add(3 * n + 2, o.width << n, 1, 1, 0);
  }
  Tensor operator()(Tensor x, Here at = Here::current()) const {  // [B,channels,size,size] -> [B,1]
    check_images("dcgan", x, options_, at);
    x = leaky_relu(shrink_[0](x), 0.2);
    for (size_t i = 0; i < norms_.size(); ++i) x = leaky_relu(norms_[i](shrink_[i + 1](x)), 0.2);
    return flatten(shrink_.back()(x), 1);
  }

 private:
  DcganOptions options_;
  std::vector<Conv2d> shrink_;
  std::vector<BatchNorm2d> norms_;
};

std::vector<std::string> errors(const DcganOptions& o) {
  if (o.size >= 8 && (o.size & (o.size - 1)) == 0) return {};
  int64_t below = 8;
  while (2 * below < o.size) below *= 2;
  return {str("model.size is ", o.size, ", not a power of 2 from 8 on; ", below,
              o.size < 8 ? " is" : str(" and ", 2 * below, " are"))};
}
Model make(Scope at, const DcganOptions& o, Here) {
  Generator generator(at / "generator" / "main", o);
  Discriminator discriminator(at / "discriminator" / "main", o);
  auto judge = [discriminator](const std::vector<Tensor>& in) { return std::vector{discriminator(in[0])}; };
  auto draw = [generator](const std::vector<Tensor>& in) { return std::vector{generator(in[0])}; };
  return {.inputs = image_inputs(o),
          .forward = judge,
          .classes = 1,
          .parts = {{"generator", draw}, {"discriminator", judge}},
          .noise = {o.latent}};
}
}  // namespace

const Family& dcgan() {
  static const Family row = family_of<DcganOptions>(
      {.kind = "dcgan",
       .about = "DCGAN: convolutions that make images, convolutions that judge them (Radford et al., 2015)",
       .output = Output::adversaries,
       .task = "adversarial",
       .make = make,
       .errors = errors});
  return row;
}

}  // namespace lockstep::models
