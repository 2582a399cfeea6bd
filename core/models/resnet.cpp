// ResNet: convolutions with a shortcut, in four stages; BatchNorm after each convolution. He et al., arXiv
// 1512.03385, with the stride in the 3 x 3 convolution of a bottleneck (v1.5).
//
// FQNs and shapes are those of torchvision's ResNet, W = width, K = classes; below L is layerS.J, S = 1 ... 4
// with W 2^(S-1) channels, in bottlenecks (50 layers and more) 4 times as many after the last convolution.
//
//   conv1.weight [W,channels,7,7]   bn1.*           L.conv{1,2,3}.weight   L.bn{1,2,3}.*
//   L.downsample.0.weight           L.downsample.1.*   (where the shortcut changes size)
//   fc.{weight [K,features],bias [K]}
//
// A norm's * is weight, bias, running_mean, running_var. Initialisation, torchvision's: convolutions normal
// of variance 2 / fan out; norms 1 and 0; fc uniform in +-1 / sqrt(fan in).
#include "core/base/error.h"
#include "core/models/families.h"
#include "core/models/image_options.h"
#include "core/nn/convolution.h"
#include "core/nn/normalization.h"

namespace lockstep::models {

namespace {
struct ResnetOptions : ImageOptions {
  int64_t classes = key(&classes, "classes", 10, "number of classes", between(1, 0x1p24));
  int64_t layers = key(&layers, "layers", 18, "10, 18, 34, or of bottlenecks 50, 101, 152", between(10, 152));
  int64_t width = key(&width, "width", 64, "channels of the first stage; each stage has twice as many",
                      between(1, 0x1p16));
};
struct Depths {
  int64_t layers;
  int64_t blocks[4];
};
constexpr Depths kShapes[] = {{10, {1, 1, 1, 1}}, {18, {2, 2, 2, 2}},   {34, {3, 4, 6, 3}},
                              {50, {3, 4, 6, 3}}, {101, {3, 4, 23, 3}}, {152, {3, 8, 36, 3}}};
const Depths* depths_of(int64_t layers) {
  for (const Depths& row : kShapes)
    if (row.layers == layers) return &row;
  return nullptr;
}
bool bottleneck(const ResnetOptions& o) { return o.layers >= 50; }

// A convolution without bias that keeps the size except for its stride, followed by a norm.
class Normed {
 public:
  Normed(const Scope& conv, const Scope& norm, int64_t in, int64_t out, int64_t kernel, int64_t stride)
      : conv_(conv, in, out, {kernel}, {.stride = {stride}, .padding = {kernel / 2}}, false,
              init::kaiming_normal(init::kReluGain, Fan::out)),
        norm_(norm, out) {}
  Tensor operator()(Tensor x) const { return norm_(conv_(x)); }

 private:
  Conv2d conv_;
  BatchNorm2d norm_;
};

class ResidualBlock {
 public:
  ResidualBlock(const Scope& at, int64_t in, int64_t inner, int64_t stride, bool narrow) {
    const int64_t out = narrow ? 4 * inner : inner;
    auto add = [&](int64_t from, int64_t to, int64_t kernel, int64_t step) {
      const size_t number = path_.size() + 1;
      path_.emplace_back(at / str("conv", number), at / str("bn", number), from, to, kernel, step);
    };
    if (narrow) {
      add(in, inner, 1, 1), add(inner, inner, 3, stride), add(inner, out, 1, 1);
    } else {
      add(in, inner, 3, stride), add(inner, out, 3, 1);
    }
    if (stride != 1 || in != out)
      shortcut_.emplace_back(at / "downsample" / 0, at / "downsample" / 1, in, out, 1, stride);
  }
  Tensor operator()(Tensor x) const {
    Tensor y = x;
    for (size_t i = 0; i < path_.size(); ++i) y = i + 1 < path_.size() ? relu(path_[i](y)) : path_[i](y);
    return relu(y + (shortcut_.empty() ? x : shortcut_[0](x)));
  }

 private:
  std::vector<Normed> path_;
  std::vector<Normed> shortcut_;  // one, or none where the input has the output's shape
};

class Resnet {
 public:
  Resnet(const Scope& at, const ResnetOptions& o)
      : options_(o), stem_(at / "conv1", at / "bn1", o.channels, o.width, 7, 2) {
    int64_t in = o.width;
    for (int64_t stage = 0; stage < 4; ++stage)
      for (int64_t i = 0; i < depths_of(o.layers)->blocks[stage]; ++i) {
        const int64_t inner = o.width << stage;
        blocks_.emplace_back(at / str("layer", stage + 1) / i, in, inner, stage && !i ? 2 : 1, bottleneck(o));
        in = bottleneck(o) ? 4 * inner : inner;
      }
    head_.emplace_back(at / "fc", in, o.classes, true, torch_linear(in));
  }
  Tensor operator()(Tensor x, Here at = Here::current()) const {
    check_images("resnet", x, options_, at);
    x = max_pool(relu(stem_(x)), {3}, {.stride = {2}, .padding = {1}});
    for (const ResidualBlock& block : blocks_) x = block(x);
    return head_[0](global_avg_pool(x));
  }

 private:
  ResnetOptions options_;
  Normed stem_;
  std::vector<ResidualBlock> blocks_;
  std::vector<Linear> head_;
};

std::vector<std::string> errors(const ResnetOptions& o) {
  if (depths_of(o.layers)) return {};
  return {str("model.layers is ", o.layers, "; choose 10, 18, 34, 50, 101 or 152")};
}
Model make(Scope at, const ResnetOptions& o, Here) {
  Resnet net(at, o);
  return {image_inputs(o), [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
          o.classes};
}
}  // namespace

const Family& resnet() {
  static const Family row =
      family_of<ResnetOptions>({.kind = "resnet",
                                .about = "ResNet: convolutions with a shortcut, BatchNorm (He et al., 2015)",
                                .output = Output::classes,
                                .task = "classification",
                                .make = make,
                                .errors = errors});
  return row;
}

}  // namespace lockstep::models
