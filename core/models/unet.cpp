// U-Net: halves an image `depth` times and doubles it again; each size is concatenated with the features of
// the same size from the way down. Ronneberger et al., arXiv 1505.04597, with padding and BatchNorm.
//
// FQNs are those of the usual PyTorch implementation; W = width, K = classes. A pair P of convolutions 3 x 3
// is P.double_conv.0.weight, P.double_conv.1.*, P.double_conv.3.weight, P.double_conv.4.*, where a norm's *
// is weight, bias, running_mean, running_var.
//
//   inc (a pair: channels -> W)        downI.maxpool_conv.1 (a pair: W 2^(I-1) -> W 2^I), I = 1 ... depth
//   upI.up.{weight [2c,c,2,2],bias [c]}      upI.conv (a pair: 2c -> c), c = W 2^(depth-I)
//   outc.conv.{weight [K,W,1,1],bias [K]}
//
// Initialisation: weights normal of variance 1 / (3 fan in), as PyTorch's default, biases 0; norms 1 and 0.
#include "core/base/error.h"
#include "core/models/families.h"
#include "core/models/image_options.h"
#include "core/nn/convolution.h"
#include "core/nn/normalization.h"

namespace lockstep::models {

namespace {
struct UnetOptions : ImageOptions {
  int64_t classes = key(&classes, "classes", 2, "classes of a pixel", between(1, 0x1p24));
  int64_t width =
      key(&width, "width", 64, "channels of the first convolution; each half size has twice as many",
          between(1, 0x1p16));
  int64_t depth = key(&depth, "depth", 4, "times that an image is halved", between(1, 12));
};

class Pair {
 public:
  Pair(const Scope& at, int64_t in, int64_t out)
      : conv1_(at / "double_conv" / 0, in, out, {3}, {.padding = {1}}, false),
        norm1_(at / "double_conv" / 1, out),
        conv2_(at / "double_conv" / 3, out, out, {3}, {.padding = {1}}, false),
        norm2_(at / "double_conv" / 4, out) {}
  Tensor operator()(Tensor x) const {
    x = relu(norm1_(conv1_(x)));
    return relu(norm2_(conv2_(x)));
  }

 private:
  Conv2d conv1_;
  BatchNorm2d norm1_;
  Conv2d conv2_;
  BatchNorm2d norm2_;
};

class Unet {
 public:
  Unet(const Scope& at, const UnetOptions& o)
      : options_(o), head_(at / "outc" / "conv", o.width, o.classes, {1}) {
    down_.emplace_back(at / "inc", o.channels, o.width);
    for (int64_t i = 1; i <= o.depth; ++i)
      down_.emplace_back(at / str("down", i) / "maxpool_conv" / 1, o.width << (i - 1), o.width << i);
    for (int64_t i = 1; i <= o.depth; ++i) {
      const int64_t out = o.width << (o.depth - i);
      grow_.emplace_back(at / str("up", i) / "up", 2 * out, out, std::vector<int64_t>{2},
                         TransposedOptions{.stride = {2}});
      up_.emplace_back(at / str("up", i) / "conv", 2 * out, out);
    }
  }
  Tensor operator()(Tensor x, Here at = Here::current()) const {
    check_images("unet", x, options_, at);
    std::vector<Tensor> sizes;
    for (size_t i = 0; i < down_.size(); ++i) sizes.push_back(x = down_[i](i ? max_pool(x, {2}) : x));
    for (size_t i = 0; i < up_.size(); ++i) x = up_[i](concat({sizes[sizes.size() - 2 - i], grow_[i](x)}, 1));
    return head_(x);
  }

 private:
  UnetOptions options_;
  std::vector<Pair> down_, up_;
  std::vector<ConvTranspose2d> grow_;
  Conv2d head_;
};

std::vector<std::string> errors(const UnetOptions& o) {
  std::vector<std::string> out;
  if (o.depth > 0 && o.depth < 32)
    add_multiple(out, "model.size", o.size, "what " + str(o.depth) + " halvings (model.depth) need",
                 int64_t{1} << o.depth);
  return out;
}
Model make(Scope at, const UnetOptions& o, Here) {
  Unet net(at, o);
  return {image_inputs(o), [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
          o.classes};
}
}  // namespace

const Family& unet() {
  static const Family row = family_of<UnetOptions>(
      {.kind = "unet",
       .about =
           "U-Net: an image is halved and doubled again, with skip connections (Ronneberger et al., 2015)",
       .output = Output::pixels,
       .task = "segmentation",
       .make = make,
       .errors = errors});
  return row;
}

}  // namespace lockstep::models
