// The CPU as a target: generated C++ and oneDNN, run on the calling thread.
#include <map>
#include <mutex>

#include "compiler/codegen/kernel_library.h"
#include "compiler/codegen/sums/cpu_reductions.h"
#include "compiler/codegen/sums/row_updates.h"
#include "compiler/codegen/target.h"
#include "core/table/register.h"

namespace lockstep::compiler {

namespace {
class CpuKernel : public Kernel {
 public:
  explicit CpuKernel(KernelFn fn) : fn_(fn) {}
  void enqueue(void* const* args, void*, Stream&, int threads) const override { fn_(args, threads); }

 private:
  KernelFn fn_;
};
class CpuMultiTensor : public MultiTensorKernel {
 public:
  explicit CpuMultiTensor(MultiTensorFn fn) : fn_(fn) {}
  void enqueue(void* const* table, const int64_t* numels, const float* per_tensor, int64_t tensors,
               void* const* scalars, Stream&, int threads) const override {
    fn_(table, numels, per_tensor, tensors, scalars, threads);
  }
  void enqueue_by_rows(const ByRows& launch, Stream&, int threads) const override {
    update_by_rows(fn_, launch, threads);
  }

 private:
  MultiTensorFn fn_;
};

class CpuKernelSet : public KernelSet {
 public:
  explicit CpuKernelSet(KernelLibrary library) : library_(std::move(library)) {}
  const Kernel& find(const std::string& name) const override {
    std::lock_guard lock(mutex_);
    auto [at, fresh] = kernels_.try_emplace(name);
    if (fresh) at->second = std::make_unique<CpuKernel>(library_.find(name));
    return *at->second;
  }
  const MultiTensorKernel& find_multi_tensor(const std::string& name) const override {
    std::lock_guard lock(mutex_);
    auto [at, fresh] = multi_.try_emplace(name);
    if (fresh) at->second = std::make_unique<CpuMultiTensor>(library_.find_multi_tensor(name));
    return *at->second;
  }
  const std::string& binary() const override { return library_.binary(); }
  std::string hash() const override { return library_.hash(); }
  bool from_cache() const override { return library_.from_cache(); }

 private:
  KernelLibrary library_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<CpuKernel>> kernels_;
  mutable std::map<std::string, std::unique_ptr<CpuMultiTensor>> multi_;
};

class CpuTarget : public Target {
 public:
  Device& device() const override { return cpu_device(); }
  bool claims(OpId op) const override {
    // linear, sdpa and their gradients: oneDNN contractions. embedding_grad: rows added in token order.
    // Convolutions: oneDNN. max_pool_grad: windows in order. Registered ops: those with host code.
    if (const Op& row = op_row(op); row.own) return row.own->on_host();
    return op == ops::linear || op == ops::sdpa || op == ops::sdpa_grad || op == ops::embedding_grad ||
           op == ops::max_pool_grad || op_row(op).library == Library::convolution;
  }
  bool is_library_op(OpId op) const override { return compiler::is_library_op(op); }
  bool accepts_strides(const Node& node, size_t index) const override {
    return compiler::accepts_strides(node, index);
  }
  KernelSource generate(const Graph& body) const override { return generate_kernel(body); }
  bool rounds_by_scales() const override { return true; }
  KernelSource generate_multi_tensor(const Graph& body) const override {
    return compiler::generate_multi_tensor(body);
  }
  std::shared_ptr<const KernelSet> compile(std::vector<KernelSource> sources,
                                           const TargetOptions& options) const override {
    KernelOptions kernel_options;
    kernel_options.cache_dir = options.cache_dir;
    return std::make_shared<CpuKernelSet>(compile_kernels(std::move(sources), kernel_options));
  }
  std::shared_ptr<const KernelSet> load(const std::string& binary) const override {
    return std::make_shared<CpuKernelSet>(KernelLibrary::from_binary(binary));
  }
  std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in,
                                                 const std::vector<Operand>& out,
                                                 const TargetOptions&) const override {
    return compiler::make_library_call(node, in, out);
  }
  bool wants_channels_last(const Graph& graph, const Node& node, const TargetOptions&) const override {
    return compiler::wants_channels_last(graph, node);
  }
  bool sums_rows() const override { return true; }
  bool takes_rows() const override { return true; }
  bool updates_by_rows() const override { return true; }
  std::unique_ptr<Reductions> make_reductions(const TargetOptions& options) const override {
    return make_cpu_reductions(options.threads);
  }
  std::string library_version() const override { return compiler::library_version(); }
};
}  // namespace

const Target& cpu_target() {
  static CpuTarget instance;
  return instance;
}

namespace {
const Target* g_default = nullptr;
}
void set_default_target(const Target& target) { g_default = &target; }

const Target& target_of(const CompileOptions& options) {
  return options.target ? *options.target : g_default ? *g_default : cpu_target();
}
TargetOptions target_options(const CompileOptions& options) {
  TargetOptions out;
  out.threads = options.threads;
  out.cache_dir = options.cache_dir;
  out.tf32 = options.precision == "tf32";
  out.together = options.together;
  return out;
}

}  // namespace lockstep::compiler
