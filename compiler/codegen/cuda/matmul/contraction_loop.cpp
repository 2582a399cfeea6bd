// A kernel with tiles of 16 x 16 outputs in shared memory; every operand is addressed by its own strides.
#include "compiler/codegen/cuda/matmul/contraction_loop.h"

#include <algorithm>

#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr const char* kKernel = R"(
struct OperandRole { long long sizes[6], strides[6]; int dims; int unused; };
struct Sides { OperandRole batch_a, free_a, sum_a, batch_b, free_b, sum_b; };
static __device__ long long place(const OperandRole& role, long long flat) {
  long long at = 0;
  for (int i = role.dims - 1; i >= 0; --i) {
    at += flat % role.sizes[i] * role.strides[i];
    flat /= role.sizes[i];
  }
  return at;
}
extern "C" __global__ void contract(const __grid_constant__ Sides s, long long m, long long n, long long k, long long tiles_m,
                                    long long tiles_n, long long tiles, const In_t* a, const In_t* b, const In_t* bias, Out_t* d) {
  __shared__ Sum left[16][17], right[16][17];
  int x = threadIdx.x & 15, y = threadIdx.x >> 4;
  for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    long long batch = tile / (tiles_m * tiles_n), rest = tile % (tiles_m * tiles_n);
    long long row0 = rest / tiles_n * 16, col0 = rest % tiles_n * 16;
    const In_t* pa = a + place(s.batch_a, batch);
    const In_t* pb = b + place(s.batch_b, batch);
    long long row = row0 + y, col = col0 + x;
    const In_t* pr = pa + (row < m ? place(s.free_a, row) : 0);
    const In_t* pc = pb + (col < n ? place(s.free_b, col) : 0);
    Sum sum = 0;
    for (long long k0 = 0; k0 < k; k0 += 16) {
      left[y][x] = row < m && k0 + x < k ? load_In(pr[place(s.sum_a, k0 + x)]) : Sum(0);
      right[y][x] = col < n && k0 + y < k ? load_In(pc[place(s.sum_b, k0 + y)]) : Sum(0);
      __syncthreads();
      int count = k - k0 < 16 ? (int)(k - k0) : 16;
      for (int i = 0; i < count; ++i) sum += left[y][i] * right[i][x];
      __syncthreads();
    }
    if (row < m && col < n) {
      if (bias) sum += load_In(bias[col]);
      d[(batch * m + row) * n + col] = store_Out((Total)sum);
    }
  }
}
)";

struct KernelRole {
  long long sizes[kLoopDims], strides[kLoopDims];
  int dims, unused;
};
KernelRole kernel_role(const OperandRole& role) {
  LS_CHECK(role.sizes.size() <= kLoopDims, "a contraction over ", role.sizes.size(),
           " dims of one role that do not nest: sizes ", role.sizes, ", strides ", role.strides, "; at most ",
           kLoopDims, " are taken");
  KernelRole out{};
  out.dims = static_cast<int>(role.sizes.size());
  for (size_t i = 0; i < role.sizes.size(); ++i)
    out.sizes[i] = role.sizes[i], out.strides[i] = role.strides[i];
  return out;
}

class ContractionLoop : public LibraryCall {
 public:
  ContractionLoop(CudaDevice& device, const ContractionPlan& plan, const std::string& cache_dir)
      : kernel_(source_module(device, contraction_loop_source(plan.in, plan.out), cache_dir), "contract"),
        bias_(plan.bias),
        roles_{kernel_role(plan.a.batch), kernel_role(plan.a.free), kernel_role(plan.a.contract),
               kernel_role(plan.b.batch), kernel_role(plan.b.free), kernel_role(plan.b.contract)},
        batch_(plan.batch),
        m_(plan.m),
        n_(plan.n),
        k_(plan.k),
        text_(str("loop m=", plan.m, " n=", plan.n, " k=", plan.k, " batch=", plan.batch, " ", name(plan.in),
                  ">", name(plan.out), plan.bias ? " +bias" : "")) {}

  std::string algorithm() const override { return text_; }
  double flops() const override {
    return 2.0 * static_cast<double>(batch_) * static_cast<double>(m_) * static_cast<double>(n_) *
           static_cast<double>(k_);
  }
  void enqueue(void* const* args, void*, Stream& stream, int) const override {
    if (batch_ * m_ * n_ == 0) return;
    Roles roles = roles_;
    long long m = m_, n = n_, k = k_, tiles_m = (m_ + 15) / 16, tiles_n = (n_ + 15) / 16,
              tiles = batch_ * tiles_m * tiles_n;
    const void* bias = bias_ ? args[2] : nullptr;
    void* a = args[0];
    void* b = args[1];
    void* d = args[bias_ ? 3 : 2];
    void* params[] = {&roles, &m, &n, &k, &tiles_m, &tiles_n, &tiles, &a, &b, &bias, &d};
    launch(kernel_, static_cast<unsigned>(std::min<long long>(tiles, 1 << 20)), 1, 1, 256, 0, stream, params,
           text_);
  }

 private:
  struct Roles {
    KernelRole roles[6];
  };
  SourceKernel kernel_;
  bool bias_;
  Roles roles_;
  int64_t batch_, m_, n_, k_;
  std::string text_;
};
}  // namespace

std::string contraction_loop_source(DType in, DType out) {
  return str(element_text("In", in), element_text("Out", out), "typedef ", sum_type(in), " Sum;\ntypedef ",
             sum_type(out), " Total;\n", kKernel);
}

std::unique_ptr<LibraryCall> make_contraction_loop(CudaDevice& device, const ContractionPlan& plan,
                                                   const std::string& cache_dir) {
  return std::make_unique<ContractionLoop>(device, plan, cache_dir);
}

}  // namespace lockstep::compiler::cuda
