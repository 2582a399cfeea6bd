// ConvNeXt: blocks of a depthwise convolution and an MLP over channels, in four stages; LayerNorm. Liu et
// al., arXiv 2201.03545.
//
// FQNs and shapes are those of torchvision's ConvNeXt; C is the stage's width, K = classes. Stage S = 0 ... 3
// is features.(2S+1), and features.(2S) is what goes before it.
//
//   features.0.0.{weight [C,channels,P,P],bias [C]} (P = patch)    features.0.1.{weight,bias} [C]
//   features.(2S).0.{weight,bias} [C before]    features.(2S).1.{weight [C,C before,2,2],bias [C]}, S > 0
//   below B is features.(2S+1).J:
//   B.layer_scale [C,1,1]           B.block.0.{weight [C,1,7,7],bias [C]}    B.block.2.{weight,bias} [C]
//   B.block.3.{weight [4C,C],bias [4C]}         B.block.5.{weight [C,4C],bias [C]}
//   classifier.0.{weight,bias} [C]              classifier.2.{weight [K,C],bias [K]}
//
// Initialisation, torchvision's: truncated normal 0.02, biases 0, norms 1, layer_scale 1e-6.
#include "core/base/error.h"
#include "core/models/families.h"
#include "core/models/image_options.h"
#include "core/nn/convolution.h"
#include "core/nn/normalization.h"

namespace lockstep::models {

namespace {
struct ConvnextOptions : ImageOptions {
  int64_t classes = key(&classes, "classes", 10, "number of classes", between(1, 0x1p24));
  std::vector<int64_t> depths =
      key(&depths, "depths", {3, 3, 9, 3}, "blocks of each stage", between(1, 1024));
  std::vector<int64_t> widths =
      key(&widths, "widths", {96, 192, 384, 768}, "channels of each stage", between(1, 0x1p16));
  int64_t patch =
      key(&patch, "patch", 4, "pixels of the side of what the first convolution reads", between(1, 0x1p10));
  double layer_scale =
      key(&layer_scale, "layer_scale", 1e-6, "what a block's output is scaled by at the start", above(0));
  double stochastic_depth =
      key(&stochastic_depth, "stochastic_depth", 0.0,
          "share of samples that skip the last block in training, of others less", from_below(0, 1));
};
Init small() { return init::truncated_normal(kInitStd); }

class ConvNextBlock {
 public:
  ConvNextBlock(const Scope& at, int64_t width, double scale, double skipped)
      : scale_(at.parameter("layer_scale", {width, 1, 1}, init::constant(scale))),
        depthwise_(at / "block" / 0, width, width, {7}, {.padding = {3}, .groups = width}, true, small()),
        norm_(at / "block" / 2, width, 1e-6),
        up_(at / "block" / 3, width, 4 * width, true, small()),
        down_(at / "block" / 5, 4 * width, width, true, small()),
        skipped_(skipped) {}
  Tensor operator()(Tensor x) const {
    Tensor y = norm_(permute(depthwise_(x), {0, 2, 3, 1}));
    y = permute(down_(gelu_erf(up_(y))), {0, 3, 1, 2});
    y = y * scale_.computed(y);
    return x + (skipped_ > 0 && !Evaluation::active() ? dropout_samples(y, skipped_) : y);
  }

 private:
  Parameter scale_;
  Conv2d depthwise_;
  LayerNorm norm_;
  Linear up_, down_;
  double skipped_;
};

// The first part of a stage: a convolution and its norm, in either order.
struct Step {
  Step(const Scope& conv_at, const Scope& norm_at, int64_t in, int64_t out, int64_t kernel, bool norm_first)
      : conv(conv_at, in, out, {kernel}, {.stride = {kernel}}, true, small()),
        norm(norm_at, norm_first ? in : out),
        first(norm_first) {}
  Tensor operator()(Tensor x) const { return first ? conv(norm(x)) : norm(conv(x)); }
  Conv2d conv;
  LayerNorm2d norm;
  bool first;
};

class Convnext {
 public:
  Convnext(const Scope& at, const ConvnextOptions& o)
      : options_(o),
        head_norm_(at / "classifier" / 0, o.widths.back()),
        head_(at / "classifier" / 2, o.widths.back(), o.classes, true, small()) {
    int64_t total = 0, done = 0;
    for (int64_t depth : o.depths) total += depth;
    for (size_t stage = 0; stage < o.depths.size(); ++stage) {
      const Scope before = at / "features" / static_cast<int64_t>(2 * stage),
                  blocks = at / "features" / static_cast<int64_t>(2 * stage + 1);
      const int64_t width = o.widths[stage];
      if (stage)
        steps_.emplace_back(before / 1, before / 0, o.widths[stage - 1], width, 2, true);
      else
        steps_.emplace_back(before / 0, before / 1, o.channels, width, o.patch, false);
      blocks_.emplace_back();
      for (int64_t i = 0; i < o.depths[stage]; ++i, ++done)
        blocks_.back().emplace_back(
            blocks / i, width, o.layer_scale,
            total > 1 ? o.stochastic_depth * static_cast<double>(done) / static_cast<double>(total - 1) : 0);
    }
  }
  Tensor operator()(Tensor x, Here at = Here::current()) const {
    check_images("convnext", x, options_, at);
    for (size_t stage = 0; stage < steps_.size(); ++stage) {
      x = steps_[stage](x);
      for (const ConvNextBlock& block : blocks_[stage]) x = block(x);
    }
    return head_(head_norm_(global_avg_pool(x)));
  }

 private:
  ConvnextOptions options_;
  std::vector<Step> steps_;
  std::vector<std::vector<ConvNextBlock>> blocks_;
  LayerNorm head_norm_;
  Linear head_;
};

std::vector<std::string> errors(const ConvnextOptions& o) {
  std::vector<std::string> out;
  if (o.depths.size() != o.widths.size() || o.depths.empty())
    return {str("model.depths has ", o.depths.size(), " stages, model.widths has ", o.widths.size(),
                "; give both one number per stage")};
  if (const int64_t parts = o.patch << std::min<size_t>(o.depths.size() - 1, 32); o.size < parts)
    out.push_back(str("model.size is ", o.size, ", less than a pixel after ", o.depths.size(),
                      " stages; it must be at least ", parts));
  return out;
}
Model make(Scope at, const ConvnextOptions& o, Here) {
  Convnext net(at, o);
  return {image_inputs(o), [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
          o.classes};
}
}  // namespace

const Family& convnext() {
  static const Family row = family_of<ConvnextOptions>(
      {.kind = "convnext",
       .about = "ConvNeXt: wide convolutions channel by channel, MLPs of channels (Liu et al., 2022)",
       .output = Output::classes,
       .task = "classification",
       .make = make,
       .errors = errors});
  return row;
}

}  // namespace lockstep::models
