// Convolution on the CPU: chooses the implementation for a shape.
#include "compiler/codegen/library/convolution.h"

#include <cstring>

#include "compiler/codegen/library/primitives.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
// Nothing to multiply: the output is zeros or the bias.
class EmptyConvolution : public HostCall {
 public:
  EmptyConvolution(const ConvolutionShape& shape, int64_t elements) : shape_(shape), elements_(elements) {}
  std::string algorithm() const override { return convolution_text(shape_) + " empty"; }
  void run(void* const* args, void*, int) const override {
    const size_t size = size_of(shape_.dtype);
    char* out = static_cast<char*>(args[shape_.bias ? 3 : 2]);
    std::memset(out, 0, elements_ * size);
    for (int64_t i = 0; shape_.bias && i < elements_; ++i)
      std::memcpy(out + static_cast<size_t>(i) * size,
                  static_cast<const char*>(args[2]) +
                      (shape_.channels_last ? i : i / shape_.windows()) % shape_.outputs * size,
                  size);
  }

 private:
  ConvolutionShape shape_;
  int64_t elements_;
};

// For an output of few positions, oneDNN reads all weights for only these (measured at 512 channels, 3x3
// positions, 8 samples: 84 to 95 Gflop/s; columns reach 133 to 158). With bf16 instructions oneDNN is still
// faster than columns, which are f32, except for the gradient of the weight. Columns that need more than this
// are not used.
using Which = ConvolutionShape::Which;
constexpr int64_t kFewWindows = 16, kManyWeights = 1 << 17, kMostColumns = 1 << 24;
bool takes_columns(const ConvolutionShape& s) {
  if (s.dtype == DType::bf16 && s.which != Which::weight && multiplies_bf16()) return false;
  return s.groups == 1 && s.windows() < kFewWindows && s.weights() >= kManyWeights &&
         s.n * s.windows() * s.channels * s.places() <= kMostColumns;
}
// oneDNN 2.6 multiplies bf16 in pairs of outputs. In jit_bf16_1x1:avx512_core_bf16 (processors without AMX),
// the last of an odd number of outputs is paired with data of the next position: wrong sums.
bool has_odd_outputs_of_one_place(const ConvolutionShape& s) {
  return s.which == Which::input && s.places() == 1 && s.outputs / s.groups % 2 == 1;
}
// For a weight's gradient it multiplies bf16 in pairs of neighbouring windows. If a row has one window, and
// windows step by more than a pixel, the other half is the data that follow in memory: wrong sums, or NaN.
bool has_rows_of_one_window(const ConvolutionShape& s) {
  return s.which == Which::weight && s.counts.back() == 1 && s.stride.back() > 1;
}
}  // namespace

bool widens_halves(const ConvolutionShape& s) {
  return s.dtype == DType::f16 ||
         (s.dtype == DType::bf16 &&
          (!multiplies_bf16() || has_odd_outputs_of_one_place(s) || has_rows_of_one_window(s)));
}

// Columns, and widened bf16 or f16, need channels first.
bool wants_channels_last(const Graph& graph, const Node& node) {
  const ConvolutionShape shape = convolution_shape(graph, node);
  return shape.dtype != DType::f64 && !widens_halves(shape) && shape.dims() == 2 &&
         (shape.groups == 1 || shape.groups == shape.channels) &&
         (is_product(shape) || !takes_columns(shape));
}

std::unique_ptr<LibraryCall> make_convolution(const Node& node, const std::vector<Operand>& in,
                                              const std::vector<Operand>& out) {
  const ConvolutionShape shape = convolution_shape(node, in, out);
  if (shape.n * shape.windows() * shape.weights() == 0 || shape.elements() == 0)
    return std::make_unique<EmptyConvolution>(shape, numel(out[0].shape));
  if (shape.channels_last && is_product(shape)) return make_product_convolution(shape);
  if (shape.channels_last && is_depthwise_weight_gradient(shape))
    return make_depthwise_weight_gradient(shape);
  return !shape.channels_last && takes_columns(shape) ? make_column_convolution(shape)
                                                      : make_direct_convolution(shape);
}

}  // namespace lockstep::compiler
