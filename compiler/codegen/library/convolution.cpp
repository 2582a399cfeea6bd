// Convolution on the CPU: which way computes a shape.
#include "compiler/codegen/library/convolution.h"

#include <cstring>

#include "compiler/codegen/library/primitives.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
// Nothing to multiply: the output is zeros, or the bias.
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
                  static_cast<const char*>(args[2]) + i / shape_.windows() % shape_.outputs * size, size);
  }

 private:
  ConvolutionShape shape_;
  int64_t elements_;
};

// An output of few positions makes oneDNN read all weights for a handful of them (measured at 512 channels,
// 3x3 positions, 8 samples: 84 to 95 Gflop/s, columns 133 to 158). Where the processor multiplies bf16 that
// is still faster than columns, which are f32, but for the gradient of the weight. Columns of more than this
// are not kept.
constexpr int64_t kFewWindows = 16, kManyWeights = 1 << 17, kMostColumns = 1 << 24;
bool takes_columns(const ConvolutionShape& s) {
  if (s.dtype == DType::bf16 && s.which != ConvolutionShape::Which::weight && multiplies_bf16()) return false;
  return s.groups == 1 && s.windows() < kFewWindows && s.weights() >= kManyWeights &&
         s.n * s.windows() * s.channels * s.places() <= kMostColumns;
}
}  // namespace

std::unique_ptr<LibraryCall> make_convolution(const Node& node, const std::vector<Operand>& in,
                                              const std::vector<Operand>& out) {
  for (const auto& operand : in) LS_CHECK(is_dense(operand), node.op, " reads dense operands");
  LS_CHECK(is_dense(out[0]), node.op, " writes a dense output");
  const ConvolutionShape shape = convolution_shape(node, in, out);
  if (shape.n * shape.windows() * shape.weights() == 0 || shape.elements() == 0)
    return std::make_unique<EmptyConvolution>(shape, numel(out[0].shape));
  return takes_columns(shape) ? make_column_convolution(shape) : make_direct_convolution(shape);
}

}  // namespace lockstep::compiler
