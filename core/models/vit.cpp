// ViT: an image as a sequence of a class token and patches, learned positions, pre-norm blocks, classes from
// the class token. Dosovitskiy et al., arXiv 2010.11929.
//
// Shapes: C = width, F = hidden, P = patch, N = (size / patch)^2 patches, K = classes. FQNs are those of
// torchvision's VisionTransformer; below E is encoder.layers.encoder_layer_I.
//
//   class_token [1,1,C]                      conv_proj.{weight [C,channels,P,P],bias [C]}
//   encoder.pos_embedding [1,N+1,C]          E.ln_1.{weight,bias} [C]
//   E.self_attention.in_proj_{weight [3C,C],bias [3C]}
//   E.self_attention.out_proj.{weight [C,C],bias [C]}
//   E.ln_2.{weight,bias} [C]                 E.mlp.0.{weight [F,C],bias [F]}
//   E.mlp.3.{weight [C,F],bias [C]}          encoder.ln.{weight,bias} [C]
//   heads.head.{weight [K,C],bias [K]}
//
// Initialisation, torchvision's: class_token and heads 0; positions normal 0.02; conv_proj truncated normal
// of variance 1 / fan in; in_proj and mlp Xavier's uniform, mlp biases normal 1e-6; out_proj PyTorch's
// default; other biases 0; norms 1.
#include <cmath>

#include "core/base/error.h"
#include "core/models/decoder.h"
#include "core/models/families.h"
#include "core/models/heads.h"
#include "core/models/image_options.h"
#include "core/nn/convolution.h"

namespace lockstep::models {

namespace {
struct VitOptions : ImageOptions {
  int64_t classes = key(&classes, "classes", 10, "number of classes", between(1, 0x1p24));
  int64_t patch =
      key(&patch, "patch", 4, "pixels of a patch's side; a divisor of model.size", between(1, 0x1p16));
  int64_t width =
      key(&width, "width", 128, "features per patch; a multiple of model.heads", between(1, 0x1p20));
  int64_t depth = key(&depth, "depth", 4, "number of blocks", between(1, 1024));
  int64_t heads = key(&heads, "heads", 4, "attention heads", between(1, 0x1p20));
  int64_t hidden =
      key(&hidden, "hidden", 0, "features inside the MLP; 0 means 4 times the width", between(0, 0x1p24));
  double eps = key(&eps, "eps", 1e-6, "epsilon of the norms", above(0));
  double dropout =
      key(&dropout, "dropout", 0.0, "share of activations that is dropped in training", from_below(0, 1));
};
int64_t hidden_of(const VitOptions& o) { return o.hidden ? o.hidden : 4 * o.width; }
int64_t patches(const VitOptions& o) {
  const int64_t side = o.size / std::max<int64_t>(o.patch, 1);
  return side * side;
}
LinearInit mlp_init() { return {init::xavier_uniform(), init::normal(1e-6)}; }

class VitBlock {
 public:
  VitBlock(const Scope& at, const VitOptions& o)
      : heads_(o.heads),
        norm1_(at / "ln_1", o.width, o.eps),
        in_weight_((at / "self_attention")
                       .projection("in_proj_weight", {3 * o.width, o.width}, init::xavier_uniform())),
        in_bias_((at / "self_attention").parameter("in_proj_bias", {3 * o.width}, init::zeros())),
        out_(at / "self_attention" / "out_proj", o.width, o.width, true, torch_linear(o.width).weight),
        norm2_(at / "ln_2", o.width, o.eps),
        up_(at / "mlp" / 0, o.width, hidden_of(o), true, mlp_init()),
        down_(at / "mlp" / 3, hidden_of(o), o.width, true, mlp_init()),
        dropout_(at / "dropout", o.dropout) {}
  Tensor operator()(Tensor x) const {
    const int64_t width = x.size(2);
    auto qkv = split(projected(norm1_(x), in_weight_, in_bias_), 2, {width, width, width});
    for (Tensor& part : qkv) part = to_heads(part, heads_);
    x = x + dropout_(out_(from_heads(sdpa(qkv[0], qkv[1], qkv[2], /*causal=*/false))));
    return x + dropout_(down_(dropout_(gelu_erf(up_(norm2_(x))))));
  }

 private:
  int64_t heads_;
  LayerNorm norm1_;
  Parameter in_weight_, in_bias_;
  Linear out_;
  LayerNorm norm2_;
  Linear up_, down_;
  Dropout dropout_;
};

class Vit {
 public:
  Vit(const Scope& at, const VitOptions& o, Here line)
      : options_(o),
        class_token_(at.parameter("class_token", {1, 1, o.width}, init::zeros(), line)),
        patch_(at / "conv_proj", o.channels, o.width, {o.patch}, {.stride = {o.patch}}, true, patch_init(o)),
        position_(
            (at / "encoder")
                .parameter("pos_embedding", {1, patches(o) + 1, o.width}, init::normal(kInitStd), line)),
        dropout_(at / "encoder" / "dropout", o.dropout),
        norm_(at / "encoder" / "ln", o.width, o.eps),
        head_(at / "heads" / "head", o.width, o.classes, true, init::zeros()) {
    for (int64_t i = 0; i < o.depth; ++i)
      blocks_.emplace_back(at / "encoder" / "layers" / str("encoder_layer_", i), o);
  }
  Tensor operator()(Tensor images, Here at = Here::current()) const {
    return head_(select(features(images, at), 1, 0));
  }
  Tensor features(Tensor images, Here at = Here::current()) const {
    check_images("vit", images, options_, at);
    Tensor x = permute(flatten(patch_(images), 2), {0, 2, 1});
    const Shape one{x.size(0), 1, x.size(2)}, all{x.size(0), x.size(1) + 1, x.size(2)};
    Tensor first = broadcast_to(class_token_.computed(x), one);
    Tensor places = broadcast_to(position_.computed(x), all);
    x = dropout_(concat({first, x}, 1) + places);
    for (const VitBlock& block : blocks_) x = block(x);
    return norm_(x);
  }

 private:
  static Init patch_init(const VitOptions& o) {
    const double std = 1 / std::sqrt(static_cast<double>(o.channels * o.patch * o.patch));
    return init::truncated_normal(std);
  }
  VitOptions options_;
  Parameter class_token_;
  Conv2d patch_;
  Parameter position_;
  Dropout dropout_;
  std::vector<VitBlock> blocks_;
  LayerNorm norm_;
  Linear head_;
};

std::vector<std::string> errors(const VitOptions& o) {
  std::vector<std::string> out;
  add_multiple(out, "model.width", o.width, "model.heads", o.heads);
  add_multiple(out, "model.size", o.size, "model.patch", o.patch);
  return out;
}
Model make(Scope at, const VitOptions& o, Here line) {
  Vit net(at, o, line);
  std::vector<PlacementRule> tp = {
      {"tp", "encoder.layers.*.self_attention.{in_proj_weight,in_proj_bias}", Shard(0, 3)},
      {"tp", "encoder.layers.*.mlp.0.*", Shard(0)},
      {"tp", "encoder.layers.*.{self_attention.out_proj,mlp.3}.weight", Shard(1)}};
  return {image_inputs(o),
          [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
          o.classes,
          tp,
          {},
          false,
          {},
          [net](const std::vector<Tensor>& in) { return std::vector{net.features(in[0])}; }};
}
}  // namespace

const Family& vit() {
  static const Family row = family_of<VitOptions>(
      {.kind = "vit",
       .about = "ViT: an image as a sequence of a class token and patches (Dosovitskiy et al., 2020)",
       .output = Output::classes,
       .task = "classification",
       .make = make,
       .errors = errors,
       .split_sizes =
           [](const VitOptions& o) {
             return std::vector<SplitSize>{
                 {"model.heads", o.heads},
                 {o.hidden ? "model.hidden" : "the MLP's features (4 x model.width)", hidden_of(o)}};
           },
       .rough =
           [](const VitOptions& o) {
             return rough_transformer({o.channels * o.patch * o.patch + o.classes, patches(o) + 1, o.width,
                                       o.depth, o.heads, o.eps, o.dropout},
                                      hidden_of(o));
           }});
  return row;
}

}  // namespace lockstep::models
