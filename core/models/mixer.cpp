// MLP-Mixer: patches of an image, mixed by MLPs over patches and over features alternately. Tolstikhin et
// al., arXiv 2105.01601.
//
// Shapes: C = width, P = patch, N = (size / patch)^2 patches, G = token_hidden, F = hidden, K = classes. FQNs
// are those of timm's MlpMixer.
//
//   stem.proj.{weight [C,channels,P,P],bias [C]}
//   blocks.I.norm1.{weight,bias} [C]
//   blocks.I.mlp_tokens.fc1.{weight [G,N],bias [G]}     blocks.I.mlp_tokens.fc2.{weight [N,G],bias [N]}
//   blocks.I.norm2.{weight,bias} [C]
//   blocks.I.mlp_channels.fc1.{weight [F,C],bias [F]}   blocks.I.mlp_channels.fc2.{weight [C,F],bias [C]}
//   norm.{weight,bias} [C]                              head.{weight [K,C],bias [K]}
//
// Initialisation, timm's: MLPs Xavier's uniform with biases normal 1e-6; head 0; norms 1; the stem normal of
// variance 1 / (3 fan in), as PyTorch's default, its bias 0.
#include "core/base/error.h"
#include "core/models/families.h"
#include "core/models/image_options.h"
#include "core/nn/convolution.h"

namespace lockstep::models {

namespace {
struct MixerOptions : ImageOptions {
  int64_t classes = key(&classes, "classes", 10, "number of classes", between(1, 0x1p24));
  int64_t patch =
      key(&patch, "patch", 4, "pixels of a patch's side; a divisor of model.size", between(1, 0x1p16));
  int64_t width = key(&width, "width", 128, "features per patch", between(1, 0x1p20));
  int64_t depth = key(&depth, "depth", 4, "number of blocks", between(1, 1024));
  int64_t token_hidden =
      key(&token_hidden, "token_hidden", 0, "features inside the MLP over patches; 0 means half of the width",
          between(0, 0x1p24));
  int64_t hidden =
      key(&hidden, "hidden", 0, "features inside the MLP over features; 0 means 4 times the width",
          between(0, 0x1p24));
  double dropout =
      key(&dropout, "dropout", 0.0, "share of activations that is dropped in training", from_below(0, 1));
};
LinearInit mlp_init() { return {init::xavier_uniform(), init::normal(1e-6)}; }

class Mlp {
 public:
  Mlp(const Scope& at, int64_t width, int64_t hidden, double dropout)
      : fc1_(at / "fc1", width, hidden, true, mlp_init()),
        fc2_(at / "fc2", hidden, width, true, mlp_init()),
        dropout_(at / "dropout", dropout) {}
  Tensor operator()(Tensor x) const { return dropout_(fc2_(dropout_(gelu_erf(fc1_(x))))); }

 private:
  Linear fc1_, fc2_;
  Dropout dropout_;
};

int64_t patches(const MixerOptions& o) { return (o.size / o.patch) * (o.size / o.patch); }

class MixerBlock {
 public:
  MixerBlock(const Scope& at, const MixerOptions& o)
      : norm1_(at / "norm1", o.width, 1e-6),
        tokens_(at / "mlp_tokens", patches(o),
                o.token_hidden ? o.token_hidden : std::max<int64_t>(o.width / 2, 1), o.dropout),
        norm2_(at / "norm2", o.width, 1e-6),
        channels_(at / "mlp_channels", o.width, o.hidden ? o.hidden : 4 * o.width, o.dropout) {}
  Tensor operator()(Tensor x) const {
    x = x + transpose(tokens_(transpose(norm1_(x), 1, 2)), 1, 2);
    return x + channels_(norm2_(x));
  }

 private:
  LayerNorm norm1_;
  Mlp tokens_;
  LayerNorm norm2_;
  Mlp channels_;
};

class Mixer {
 public:
  Mixer(const Scope& at, const MixerOptions& o)
      : options_(o),
        stem_(at / "stem" / "proj", o.channels, o.width, {o.patch}, {.stride = {o.patch}}),
        blocks_(at / "blocks", o.depth, o),
        norm_(at / "norm", o.width, 1e-6),
        head_(at / "head", o.width, o.classes, true, init::zeros()) {}
  Tensor operator()(Tensor images, Here at = Here::current()) const {
    check_images("mixer", images, options_, at);
    Tensor x = norm_(blocks_(permute(flatten(stem_(images), 2), {0, 2, 1})));
    return head_(mean(x, {1}));
  }

 private:
  MixerOptions options_;
  Conv2d stem_;
  Stack<MixerBlock> blocks_;
  LayerNorm norm_;
  Linear head_;
};

std::vector<std::string> errors(const MixerOptions& o) {
  std::vector<std::string> out;
  add_multiple(out, "model.size", o.size, "model.patch", o.patch);
  return out;
}
Model make(Scope at, const MixerOptions& o, Here) {
  Mixer net(at, o);
  return {image_inputs(o), [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
          o.classes};
}
}  // namespace

const Family& mixer() {
  static const Family row = family_of<MixerOptions>(
      {.kind = "mixer",
       .about = "MLP-Mixer: MLPs over patches and over features in turns (Tolstikhin et al., 2021)",
       .output = Output::classes,
       .task = "classification",
       .make = make,
       .errors = errors});
  return row;
}

}  // namespace lockstep::models
