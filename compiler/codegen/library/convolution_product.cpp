// A convolution of windows of one pixel each as a matrix product, for channels-last tensors: x is a matrix
// [pixels, channels], y [pixels, outputs], the weight [outputs, channels].
#include "compiler/codegen/library/convolution.h"
#include "compiler/codegen/library/product.h"

namespace lockstep::compiler {

namespace {
using Which = ConvolutionShape::Which;

// The product with its operands in the other order.
class OfSwapped : public HostCall {
 public:
  explicit OfSwapped(std::unique_ptr<LibraryCall> product) : product_(std::move(product)) {}
  size_t workspace(int threads) const override { return product_->workspace(threads); }
  std::string algorithm() const override { return product_->algorithm(); }
  double flops() const override { return product_->flops(); }
  void run(void* const* args, void* workspace, int threads) const override {
    void* const swapped[] = {args[1], args[0], args[2]};
    static_cast<const HostCall&>(*product_).run(swapped, workspace, threads);
  }

 private:
  std::unique_ptr<LibraryCall> product_;
};
}  // namespace

bool is_product(const ConvolutionShape& s) {
  const std::vector<int64_t> none(s.dims(), 0), one(s.dims(), 1);
  return s.groups == 1 && s.sizes == one && s.stride == one && s.lo == none && s.hi == none;
}

std::unique_ptr<LibraryCall> make_product_convolution(const ConvolutionShape& s) {
  const int64_t pixels = s.n * s.elements(), c = s.channels, o = s.outputs;
  // An operand: the dim that the product keeps and the dim that it sums over, each with its stride.
  auto side = [](int64_t free, int64_t free_stride, int64_t contract, int64_t contract_stride) {
    return OperandSide{{}, {{free}, {free_stride}}, {{contract}, {contract_stride}}};
  };
  switch (s.which) {
    case Which::forward:
      return make_product(side(pixels, c, c, 1), side(o, c, c, 1), s.bias, s.dtype);
    case Which::input:
      return make_product(side(pixels, o, o, 1), side(c, 1, o, c), false, s.dtype);
    case Which::weight:
      return std::make_unique<OfSwapped>(
          make_product(side(o, 1, pixels, o), side(c, 1, pixels, c), false, s.dtype));
  }
  return nullptr;
}

}  // namespace lockstep::compiler
