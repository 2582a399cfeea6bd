// Convolution on CUDA: chooses between cuDNN, a matrix product and our own kernels.
#include "compiler/codegen/cuda/convolution/convolution.h"

#include <algorithm>
#include <string>

#include "compiler/codegen/cuda/library/cudnn.h"
#include "compiler/codegen/cuda/library/library.h"
#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler::cuda {

using Which = ConvolutionShape::Which;

ConvolutionDims convolution_dims(const ConvolutionShape& s) {
  ConvolutionDims out;
  auto fill = [&](const std::vector<int64_t>& list, int64_t(&to)[3], int64_t otherwise) {
    const size_t lead = 3 - list.size();
    for (size_t d = 0; d < 3; ++d) to[d] = d < lead ? otherwise : list[d - lead];
  };
  fill(s.spatial, out.spatial, 1), fill(s.sizes, out.sizes, 1), fill(s.counts, out.counts, 1);
  fill(s.stride, out.stride, 1), fill(s.dilation, out.dilation, 1), fill(s.lo, out.lo, 0),
      fill(s.hi, out.hi, 0);
  return out;
}

ConvolutionPointers convolution_pointers(const ConvolutionShape& s, void* const* args) {
  switch (s.which) {
    case Which::forward:
      return {args[0], args[1], args[s.bias ? 3 : 2], s.bias ? args[2] : nullptr};
    case Which::input:
      return {args[2], args[1], args[0], nullptr};
    case Which::weight:
      return {args[0], args[2], args[1], nullptr};
  }
  return {};
}

namespace {
// `bias`: for f32, whose plan has none. Our own kernel adds it, because cuDNN's engines that fuse it round
// their operands.
class CudnnConvolution : public LibraryCall {
 public:
  CudnnConvolution(const ConvolutionShape& shape, std::shared_ptr<const ConvolutionPlan> plan,
                   std::unique_ptr<LibraryCall> bias)
      : shape_(shape), plan_(std::move(plan)), bias_(std::move(bias)) {}
  size_t workspace(int) const override { return static_cast<size_t>(plan_->workspace()); }
  void enqueue(void* const* args, void* workspace, Stream& stream, int threads) const override {
    plan_->enqueue(convolution_pointers(shape_, args), workspace, stream);
    if (bias_) bias_->enqueue(args, nullptr, stream, threads);
  }
  std::string algorithm() const override {
    return str(cudnn_version(), " ", plan_->name(), " ", convolution_text(shape_), bias_ ? " after it" : "",
               " deterministic");
  }
  double flops() const override { return convolution_flops(shape_); }

 private:
  ConvolutionShape shape_;
  std::shared_ptr<const ConvolutionPlan> plan_;
  std::unique_ptr<LibraryCall> bias_;
};
}  // namespace

namespace {
bool runs_bf16x6(const ConvolutionShape& shape, const Properties& device) {
  return unfit_for_bf16x6(shape, device).empty() && pays_bf16x6(shape);
}
// Whether at least half of the convolutions are matrix products if their tensors are channels last.
bool are_products(const Graph& graph, const Properties& device) {
  int64_t all = 0, products = 0;
  for (const Node& node : graph.nodes) {
    if (op_row(node.op).library != Library::convolution) continue;
    ++all;
    ConvolutionShape shape = convolution_shape(graph, node);
    shape.channels_last = true;
    if (has_separate_windows(shape) || runs_bf16x6(shape, device)) ++products;
  }
  return 2 * products >= all;
}
}  // namespace

bool wants_channels_last(const Graph& graph, const Node& node, const Properties& device,
                         const TargetOptions& options) {
  const ConvolutionShape shape = convolution_shape(graph, node);
  if (shape.dims() != 2) return false;
  if (shape.groups != 1) return is_depthwise(shape);
  if (shape.dtype == DType::bf16 || shape.dtype == DType::f16) return true;
  return shape.dtype == DType::f32 && (options.tf32 || are_products(graph, device));
}

std::unique_ptr<LibraryCall> make_convolution(CudaDevice& device, const Node& node,
                                              const std::vector<Operand>& in, const std::vector<Operand>& out,
                                              const TargetOptions& options) {
  const ConvolutionShape shape = convolution_shape(node, in, out);
  const bool empty = shape.n * shape.windows() * shape.weights() * shape.elements() == 0;
  if (empty || shape.dtype == DType::f64) return make_own_convolution(device, shape, "", options.cache_dir);
  if (shape.channels_last && is_depthwise(shape)) return make_depthwise(device, shape, options.cache_dir);
  if (!options.tf32) {
    if (const auto product = convolution_product(shape))
      if (auto call = make_product_convolution(device, shape, *product, options.cache_dir)) return call;
    if (runs_bf16x6(shape, device.properties()))
      return make_bf16x6_convolution(device, shape, options.cache_dir);
    if (const auto mirrored = mirrored_convolution(shape); mirrored && pays_mirrored(shape))
      if (auto call = make_mirrored_convolution(device, shape, *mirrored, options.cache_dir)) return call;
  }
  std::string refused;
  ConvolutionShape planned = shape;
  const bool added = shape.bias && shape.dtype == DType::f32;
  if (added) planned.bias = false;
  if (auto plan = plan_convolution(device, planned, options.tf32, refused))
    return std::make_unique<CudnnConvolution>(
        shape, std::move(plan), added ? make_channel_bias(device, shape, options.cache_dir) : nullptr);
  return make_own_convolution(device, shape, str(cudnn_version(), " refuses it: ", refused),
                              options.cache_dir);
}

}  // namespace lockstep::compiler::cuda
