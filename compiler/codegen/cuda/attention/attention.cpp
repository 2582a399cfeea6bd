// Attention on CUDA: chooses between cuDNN, products on cuBLASLt and our own kernels, and runs cuDNN's calls
// in pieces.
#include <algorithm>

#include "compiler/codegen/cuda/attention/attention.h"
#include "compiler/codegen/cuda/library/library.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
class CudnnAttention : public LibraryCall {
 public:
  CudnnAttention(const AttentionShape& shape, std::vector<AttentionPiece> pieces,
                 std::vector<std::shared_ptr<const SdpaPlan>> plans)
      : shape_(shape), pieces_(std::move(pieces)), plans_(std::move(plans)) {}
  size_t workspace(int) const override {
    int64_t most = 0;
    for (const auto& plan : plans_) most = std::max(most, plan->workspace());
    return most;
  }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    AttentionPointers pointers = attention_pointers(shape_, args);
    for (size_t i = 0; i < pieces_.size(); ++i)
      plans_[i]->enqueue(pointers_of_piece(shape_, pieces_[i], pointers), workspace, stream);
  }
  std::string algorithm() const override {
    std::string names;  // pieces have at most two sizes, each with its own plan
    for (auto at = plans_.begin(); at != plans_.end(); ++at)
      if (std::none_of(plans_.begin(), at,
                       [&](const auto& before) { return before->name() == (*at)->name(); }))
        names += (names.empty() ? "" : " and ") + (*at)->name();
    std::string text = str(cudnn_version(), " ", names, " ", attention_text(shape_), " deterministic");
    if (pieces_.size() > 1)
      text += str(" in ", pieces_.size(), " pieces of at most ", pieces_[0].batches, " batches and ",
                  pieces_[0].kv_heads, " key heads");
    return text;
  }
  bool runs_side_by_side() const override { return true; }
  double flops() const override { return attention_flops(shape_); }

 private:
  AttentionShape shape_;
  std::vector<AttentionPiece> pieces_;
  std::vector<std::shared_ptr<const SdpaPlan>> plans_;  // one per piece
};

// cuDNN moves 16 bytes at a time (validate_sdpa_operand_stride_alignment of cudnn-frontend).
std::string unfit_for_cudnn(const AttentionShape& s) {
  if (s.size % 8 != 0) return str("head size ", s.size, " is no multiple of 8, as cuDNN needs");
  for (const HeadView& view : {s.q, s.k, s.v, s.o, s.grad, s.dq, s.dk, s.dv})
    if (view.batch % 8 || view.token % 8 || view.head % 8)
      return "strides are no multiples of 16 bytes, as cuDNN needs";
  return "";
}
}  // namespace

std::unique_ptr<LibraryCall> make_attention(CudaDevice& device, const Node& node,
                                            const std::vector<Operand>& in, const std::vector<Operand>& out,
                                            const TargetOptions& options) {
  AttentionShape shape = attention_shape(node, in, out);
  bool half = shape.dtype == DType::bf16 || shape.dtype == DType::f16;
  bool empty = shape.batch * shape.heads * shape.queries * shape.keys * shape.size == 0;
  const int shared = device.properties().shared_per_block;
  if (empty) return make_own_attention(device, shape, tiled_attention(shape, shared), "", options.cache_dir);
  const bool on_cores = unfit_for_tensor_cores(shape, shared).empty();
  const int64_t cap = score_cap(device.memory_info().total);
  auto other = [&](const std::string& why) -> std::unique_ptr<LibraryCall> {
    if (on_cores && !half)
      return make_own_attention(device, shape, tensor_attention(shape, options.tf32), why, options.cache_dir);
    if (unfit_for_products(shape, cap, options.tf32).empty())
      if (auto call = make_product_attention(device, shape, cap, options.tf32, why, options.cache_dir))
        return call;
    AttentionKernels kernels =
        on_cores ? tensor_attention(shape, options.tf32) : tiled_attention(shape, shared);
    return make_own_attention(device, shape, std::move(kernels), why, options.cache_dir);
  };
  if (!half) return other("");
  std::string refused = unfit_for_cudnn(shape);
  const AttentionReads& reads = shape.reads;
  if (reads.lengths || reads.documents || reads.mask || reads.bias)
    refused = "masks other than causal and window, and a bias, are the room's own";
  if (!refused.empty()) return other(refused);

  if (unfit_for_hopper(shape, device.properties()).empty() && pays_on_hopper(shape))
    return make_hopper_attention(device, shape, options.cache_dir);
  std::vector<AttentionPiece> pieces{{0, shape.batch, 0, shape.kv_heads}};
  if (shape.backward) pieces = cut_attention(shape, cap);
  std::vector<std::shared_ptr<const SdpaPlan>> plans;
  for (const AttentionPiece& piece : pieces) {
    plans.push_back(plan_sdpa(device, shape_of_piece(shape, piece), true, refused));
    if (!plans.back()) return other(str(cudnn_version(), " refuses it: ", refused));
  }
  return std::make_unique<CudnnAttention>(shape, std::move(pieces), std::move(plans));
}

}  // namespace lockstep::compiler::cuda
