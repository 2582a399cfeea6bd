// The CUDA target: generated kernels, cuBLASLt, cuDNN, and our own reductions.
#include "compiler/codegen/cuda/cuda_target.h"

#include <map>
#include <mutex>

#include "compiler/codegen/cuda/content_sums.h"
#include "compiler/codegen/cuda/draws.h"
#include "compiler/codegen/cuda/library/cublaslt.h"
#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/loops/form.h"
#include "compiler/codegen/cuda/loops/kernels.h"
#include "compiler/codegen/cuda/source/module.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "compiler/codegen/cuda/sums/reductions.h"
#include "compiler/codegen/cuda/sums/reductions_source.h"
#include "compiler/codegen/cuda/sums/table_rows.h"
#include "core/base/error.h"
#include "core/table/register.h"

namespace lockstep::compiler {

namespace {
class CudaTarget : public Target {
 public:
  explicit CudaTarget(int ordinal) : device_(cuda::open_device(ordinal)) {
    device_->take_content_sums(cuda::make_content_sums(*device_));
    device_->take_draws(cuda::make_draws(*device_));
  }
  Device& device() const override { return *device_; }
  bool claims(OpId op) const override {
    if (const Op& row = op_row(op); row.own) return !row.own->definition.cuda.empty();
    return op == ops::linear || op == ops::sdpa || op == ops::sdpa_grad || op == ops::embedding_grad ||
           op_row(op).library == Library::convolution;
  }
  bool is_library_op(OpId op) const override {
    const Library library = op_row(op).library;
    return library != Library::none && library != Library::pooling;
  }
  bool accepts_strides(const Node& node, size_t index) const override {
    return compiler::accepts_strides(node, index);
  }
  bool wants_channels_last(const Graph& graph, const Node& node,
                           const TargetOptions& options) const override {
    return cuda::wants_channels_last(graph, node, device_->properties(), options);
  }
  ProductRows product_rows(DType dtype, const TargetOptions& options) const override {
    return cuda::product_rows(dtype, options);
  }
  bool sums_both_ways(int64_t rows, int64_t columns) const override {
    return cuda::sums_both_ways(rows, columns);
  }
  KernelSource generate(const Graph& body) const override { return cuda::generate_kernel(body); }
  KernelSource generate_together(const Graph& body, int64_t together) const override {
    return cuda::generate_kernel(body, together);
  }
  bool rounds_by_scales() const override { return true; }
  KernelSource generate_multi_tensor(const Graph& body) const override {
    return cuda::generate_multi_tensor(body);
  }
  std::shared_ptr<const KernelSet> compile(std::vector<KernelSource> sources,
                                           const TargetOptions& options) const override {
    return cuda::compile_kernels(*device_, std::move(sources), options.cache_dir);
  }
  void begin_compile(const std::vector<KernelSource>& sources, const TargetOptions& options) const override {
    cuda::begin_kernels(*device_, sources, options.cache_dir);
  }
  std::shared_ptr<const KernelSet> load(const std::string& binary) const override {
    return cuda::load_kernels(*device_, binary);
  }
  std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in,
                                                 const std::vector<Operand>& out,
                                                 const TargetOptions& options) const override {
    switch (op_row(node.op).library) {
      case Library::contraction:
        return cuda::make_contraction(*device_, node, in, out, options);
      case Library::attention:
        return cuda::make_attention(*device_, node, in, out, options);
      case Library::row_sums:
        return cuda::make_row_sums(*device_, node, in, out, options);
      case Library::convolution:
        return cuda::make_convolution(*device_, node, in, out, options);
      case Library::float8:
        return cuda::make_float8(*device_, node, in, out, options);
      case Library::pooling:
      case Library::none:
        break;
    }
    throw InternalError(str(node.op, " is no library op"));
  }
  void finish_library_calls() const override { cuda::finish_source_modules(*device_); }
  bool sums_rows() const override { return true; }
  std::unique_ptr<Reductions> make_reductions(const TargetOptions& options) const override {
    return cuda::make_reductions(*device_, options.cache_dir);
  }
  std::string library_version() const override {
    return str("cuBLASLt ", cuda::cublaslt_version(), ", NVRTC ", cuda::nvrtc_version(), ", kernels ",
               cuda::generator_version(), ", ", device_->properties().name, " (", device_->target(), ")");
  }

 private:
  std::shared_ptr<cuda::CudaDevice> device_;
};
}  // namespace

bool cuda_available(std::string* why) { return cuda::available(why); }
int cuda_devices() { return cuda::device_count(); }

const Target& cuda_target(int ordinal) {
  static std::mutex mutex;
  // With their contexts, for the life of the process.
  static std::map<int, std::unique_ptr<CudaTarget>> targets;
  std::lock_guard lock(mutex);
  auto& target = targets[ordinal];
  if (!target) target = std::make_unique<CudaTarget>(ordinal);
  return *target;
}

}  // namespace lockstep::compiler
