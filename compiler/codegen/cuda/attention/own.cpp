// Attention by our own kernels, for calls that cuDNN refuses: f32, f64, masks, and unusual sizes or strides
// of bf16 and f16.
#include "compiler/codegen/cuda/attention/attention.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
class OwnAttention : public LibraryCall {
 public:
  OwnAttention(CudaDevice& device, const AttentionShape& shape, AttentionKernels kernels,
               const std::string& why, const std::string& cache_dir)
      : shape_(shape),
        launches_(std::move(kernels.launches)),
        text_(str(kernels.name, " ", attention_text(shape), " ", hash_hex(kernels.source), " deterministic",
                  why.empty() ? "" : "; " + why)) {
    if (launches_.empty()) return;
    device.enter();
    kernels_ = kernels_of(launches_, source_module(device, kernels.source, cache_dir));
  }
  size_t workspace(int) const override {  // delta
    if (!shape_.backward) return 0;
    size_t rows = shape_.batch * shape_.heads * shape_.queries;
    return (rows * (shape_.dtype == DType::f64 ? 8 : 4) + 255) / 256 * 256;
  }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    AttentionArgs packed = attention_args(shape_, attention_pointers(shape_, args), workspace);
    enqueue_launches(launches_, kernels_, &packed, stream);
  }
  std::string algorithm() const override { return text_; }
  double flops() const override { return attention_flops(shape_); }

 private:
  AttentionShape shape_;
  std::vector<AttentionLaunch> launches_;
  std::string text_;
  std::vector<SourceKernel> kernels_;  // one per launch
};
}  // namespace

void check_launches(std::vector<AttentionLaunch>& all) {
  std::erase_if(all, [](const AttentionLaunch& launch) { return launch.grid == 0; });
  for (const AttentionLaunch& launch : all)
    LS_CHECK(launch.grid < int64_t{1} << 31, launch.kernel, " of ", launch.grid, " blocks");
}

std::vector<SourceKernel> kernels_of(const std::vector<AttentionLaunch>& launches,
                                     const std::shared_ptr<const SourceModule>& module) {
  std::vector<SourceKernel> out;
  for (const AttentionLaunch& launch : launches) out.emplace_back(module, launch.kernel, launch.shared_bytes);
  return out;
}

void enqueue_launches(const std::vector<AttentionLaunch>& launches, const std::vector<SourceKernel>& kernels,
                      void* args, Stream& stream) {
  void* params[] = {args};
  for (size_t i = 0; i < launches.size(); ++i)
    launch(kernels[i], static_cast<unsigned>(launches[i].grid), 1, 1,
           static_cast<unsigned>(launches[i].threads), static_cast<unsigned>(launches[i].shared_bytes),
           stream, params, launches[i].kernel);
}

std::unique_ptr<LibraryCall> make_own_attention(CudaDevice& device, const AttentionShape& shape,
                                                AttentionKernels kernels, const std::string& why,
                                                const std::string& cache_dir) {
  return std::make_unique<OwnAttention>(device, shape, std::move(kernels), why, cache_dir);
}

}  // namespace lockstep::compiler::cuda
