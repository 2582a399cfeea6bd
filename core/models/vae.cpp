// A variational autoencoder of two MLPs: one maps an image to the mean and the log variance of `latent`
// numbers, the other maps a sample of them to an image. Kingma and Welling, arXiv 1312.6114.
//
// Shapes: P = channels size^2 pixels, F = hidden, Z = latent. FQNs are those of PyTorch's example.
//
//   fc1.{weight [F,P],bias [F]}      fc21.{weight [Z,F],bias [Z]} (mean)
//   fc22.{weight [Z,F],bias [Z]} (log variance)
//   fc3.{weight [F,Z],bias [F]}      fc4.{weight [P,F],bias [P]}
//
// Initialisation: uniform in +-1 / sqrt(fan in). Under Evaluation the mean replaces the sample.
#include "core/base/error.h"
#include "core/models/families.h"
#include "core/models/image_options.h"
#include "core/nn/layers.h"

namespace lockstep::models {

namespace {
struct VaeOptions : ImageOptions {
  int64_t hidden = key(&hidden, "hidden", 400, "features inside each MLP", between(1, 0x1p20));
  int64_t latent = key(&latent, "latent", 20, "numbers that encode an image", between(1, 0x1p20));
};

class Vae {
 public:
  Vae(const Scope& at, const VaeOptions& o) : Vae(at, o, o.channels * o.size * o.size) {}
  std::vector<Tensor> operator()(Tensor images, Here at = Here::current()) const {
    check_images("vae", images, options_, at);
    Tensor h = relu(fc1_(flatten(images, 1))), mean = fc21_(h), log_variance = fc22_(h), z = mean;
    if (!Evaluation::active()) z = mean + randn(mean, mean.shape(), mean.dtype()) * exp(log_variance * 0.5);
    return {reshape(fc4_(relu(fc3_(z))), images.shape()), mean, log_variance};
  }

 private:
  Vae(const Scope& at, const VaeOptions& o, int64_t pixels)
      : options_(o),
        fc1_(at / "fc1", pixels, o.hidden, true, torch_linear(pixels)),
        fc21_(at / "fc21", o.hidden, o.latent, true, torch_linear(o.hidden)),
        fc22_(at / "fc22", o.hidden, o.latent, true, torch_linear(o.hidden)),
        fc3_(at / "fc3", o.latent, o.hidden, true, torch_linear(o.latent)),
        fc4_(at / "fc4", o.hidden, pixels, true, torch_linear(o.hidden)) {}
  VaeOptions options_;
  Linear fc1_, fc21_, fc22_, fc3_, fc4_;
};
}  // namespace

const Family& vae() {
  static const Family row = family_of<VaeOptions>(
      {.kind = "vae",
       .about = "a variational autoencoder of MLPs, of images in [0, 1] (Kingma and Welling, 2013)",
       .output = Output::reconstruction,
       .task = "autoencoding",
       .make = [](Scope at, const VaeOptions& o, Here) {
         Vae net(at, o);
         return Model{image_inputs(o), [net](const std::vector<Tensor>& in) { return net(in[0]); }};
       }});
  return row;
}

}  // namespace lockstep::models
