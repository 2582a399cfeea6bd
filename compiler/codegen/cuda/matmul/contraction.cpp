// dot and linear: on cuBLASLt, as six bf16 products for f32 on Hopper, or on our own loop if no matrix
// product expresses them.
#include <algorithm>

#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/matmul/contraction_loop.h"
#include "compiler/codegen/cuda/matmul/gemm_bf16x6.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr double kFilled = 2.0 * 132 * 128 * 128 * 256;  // a tile of k 256 for each multiprocessor of an H200
constexpr double kSlow = 1e10;  // operations: about 10 ms on a plain kernel, worth a warning
constexpr const char* kBiasKernel = R"(
extern "C" __global__ void add_bias(T_t* d, const T_t* bias, long long count, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (long long)blockDim.x)
    d[i] = store_T(load_T(d[i]) + load_T(bias[i % n]));
}
)";

// Adds the bias in a separate launch, because f64 has no epilogues.
class BiasAfter {
 public:
  BiasAfter(CudaDevice& device, DType dtype, const std::string& cache_dir)
      : kernel_(source_module(device, bias_source(dtype), cache_dir), "add_bias") {}
  void enqueue(void* d, const void* bias, int64_t count, int64_t n, Stream& stream) const {
    long long all = count, columns = n;
    void* params[] = {&d, &bias, &all, &columns};
    launch(kernel_, static_cast<unsigned>(std::min<int64_t>((count + 255) / 256, 4096)), 1, 1, 256, 0, stream,
           params, "add_bias");
  }

 private:
  SourceKernel kernel_;
};

class Contraction : public LibraryCall {
 public:
  Contraction(const ContractionPlan& plan, std::unique_ptr<Gemm> gemm, std::unique_ptr<BiasAfter> bias_after)
      : gemm_(std::move(gemm)),
        bias_after_(std::move(bias_after)),
        bias_(plan.bias),
        at_(plan.at),
        size_in_(size_of(plan.in)),
        size_out_(size_of(plan.out)),
        count_(plan.batch * plan.m * plan.n),
        n_(plan.n) {}

  size_t workspace(int) const override { return gemm_->workspace(); }
  std::string algorithm() const override {
    return str(gemm_->algorithm(), at_.size() > 1 ? str(" x", at_.size()) : "",
               bias_after_ ? " then bias" : "");
  }
  bool runs_side_by_side() const override { return true; }
  double flops() const override { return gemm_->flops() * static_cast<double>(at_.size()); }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    auto byte = [](void* base, int64_t elements, size_t size) {
      return static_cast<char*>(base) + elements * static_cast<int64_t>(size);
    };
    void* d = args[bias_ ? 3 : 2];
    for (const auto& at : at_) {
      GemmArgs call;
      call.a = byte(args[0], at[0], size_in_), call.b = byte(args[1], at[1], size_in_),
      call.d = byte(d, at[2], size_out_);
      if (bias_ && !bias_after_) call.bias = args[2];
      gemm_->enqueue(call, workspace, stream);
    }
    if (bias_after_) bias_after_->enqueue(d, args[2], count_, n_, stream);
  }
  bool enqueue_together(void* const* args, void* workspace, const Repeats& repeats, Stream& stream,
                        int) const override {
    const size_t d = bias_ ? 3 : 2;
    if (at_.size() > 1 || bias_after_ || (bias_ && repeats.strides[2] != 0)) return false;
    return gemm_->enqueue_together(
        {.a = args[0], .b = args[1], .d = args[d], .bias = bias_ ? args[2] : nullptr},
        {repeats.count, repeats.strides[0], repeats.strides[1], repeats.strides[d]}, workspace, stream);
  }

 private:
  std::unique_ptr<Gemm> gemm_;
  std::unique_ptr<BiasAfter> bias_after_;
  bool bias_;
  std::vector<std::array<int64_t, 3>> at_;
  size_t size_in_, size_out_;
  int64_t count_, n_;
};
// Whether B is the same for all micro-batches. It is, except in a weight's gradient, which sums over the rows
// of both operands. Only the choice of an algorithm depends on it.
bool reads_weight(const Node& node) {
  return node.op == ops::linear || node.attrs.list("lhs_contract") != node.attrs.list("rhs_contract");
}
}  // namespace

ProductRows product_rows(DType dtype, const TargetOptions& options) {
  if (dtype == DType::f32 && options.tf32)
    return {.multiple = 8, .ragged_flops = 1.2e14, .whole_flops = 3.3e14, .bytes = 3e12, .launch = 1e-6};
  if (dtype == DType::bf16 || dtype == DType::f16)
    return {.multiple = 8,
            .ragged_flops = 2.5e14,
            .whole_flops = 5e14,
            .bytes = 3e12,
            .launch = 2e-6,
            .filled = kFilled};
  return {};
}

std::string bias_source(DType dtype) { return element_text("T", dtype) + kBiasKernel; }

std::unique_ptr<LibraryCall> make_contraction(CudaDevice& device, const Node& node,
                                              const std::vector<Operand>& in, const std::vector<Operand>& out,
                                              const TargetOptions& options) {
  ContractionPlan plan = plan_contraction(node, in, out, options.tf32);
  auto loop = [&](const std::string& why) {
    auto call = make_contraction_loop(device, plan, options.cache_dir);
    if (call->flops() > kSlow)
      logs::warn(str("[", node.op, "] ", node.at.text(), ": ", call->algorithm(),
                     " runs on a plain kernel, many times slower than cuBLASLt (", why, ")"));
    return call;
  };
  if (!plan.matrix) return loop(plan.reason);
  if (plan.gemm.batch == 1 && plan.at.size() == 1)
    plan.gemm.together = options.together, plan.gemm.share_b = reads_weight(node);
  if (auto gemm = make_product(device, plan.gemm, options.cache_dir))
    return std::make_unique<Contraction>(plan, std::move(gemm), nullptr);
  if (plan.bias && (plan.out == DType::f32 ||
                    plan.out == DType::f64)) {  // added after the rounding, which does not change these sums
    GemmOptions bare = plan.gemm;
    bare.epilogue = Epilogue::none;
    if (auto gemm = make_gemm(device, bare))
      return std::make_unique<Contraction>(plan, std::move(gemm),
                                           std::make_unique<BiasAfter>(device, plan.out, options.cache_dir));
  }
  return loop("it has no algorithm for " + text(plan.gemm));
}

}  // namespace lockstep::compiler::cuda
