// A matrix product, on cuBLASLt by make_gemm, prepared once: D = epilogue(A B), batched through strides,
// row-major. The algorithm is chosen when the product is made, from its description alone; no algorithm here
// adds in an order that time decides.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_device.h"
#include "core/types/dtype.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, of core

// What follows the sum, before the one rounding to the output type. Vectors are dense and of the output type.
enum class Epilogue {
  none,
  bias,            // D += bias[n], the same for every row
  gelu_bias_aux,   // aux = A B + bias[n]; D = gelu(aux), tanh form
  gelu_grad,       // D = (A B) * gelu'(aux), tanh form
  gelu_grad_sums,  // as gelu_grad, and sums[n] = the sum of D's rows (the gradient of the bias under the
                   // gelu)
  sums_a,  // D = A B, and sums[m] = sum over k of A (weight's gradient dy^T x with the gradient of the bias)
  sums_b,  // D = A B, and sums[n] = sum over k of B
};
const char* name(Epilogue epilogue);

struct GemmOptions {
  int64_t m = 0, n = 0, k = 0, batch = 1;  // each at least 1
  bool ta = false,
       tb = false;  // A is [m,k], or stored [k,m] when ta; B is [k,n], or stored [n,k] when tb; D is [m,n]
  int64_t lda = 0, ldb = 0, ldd = 0;                 // elements between stored rows
  int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // elements between batches; 0 reads the same A or B
  DType in = DType::f32,
        out = DType::f32;  // f32 f32; bf16 bf16; f16 f16; bf16 f32; f16 f32; f64 f64; float8 bf16. Sums are
                           // f32, f64 for f64
  // Of B, where it is not `in`: A and B of float8 have a format each, rows of k (B is [n,k]), and a factor
  // each.
  std::optional<DType> in_b = {};
  bool fast = false;     // float8: sums stay in the matrix unit's accumulator, which keeps fewer bits
  bool rowwise = false;  // float8: A has a factor for each row of m, and B for each of n
  bool tf32 = false;     // f32 operands may be rounded to TF32
  Epilogue epilogue = Epilogue::none;
  int64_t ld_aux = 0, stride_aux = 0;  // aux is [m,n] of the output type; multiples of 8, at least n
  // How many of these products may run together (enqueue_together), of one B where `share_b`: the algorithm
  // is chosen for so many, with little workspace, where there is one. Of batch 1.
  int64_t together = 1;
  bool share_b = false;
  int alignment = 16;  // bytes: every pointer given to enqueue is a multiple
  bool operator==(const GemmOptions&) const = default;
};

// "m=65536 n=768 k=3072 bf16>bf16 A:[k,m]/768 +bias": equal options, equal text.
std::string text(const GemmOptions& options);

struct GemmArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;
  void* sums = nullptr;
  void* aux = nullptr;  // written by gelu_bias_aux, read by gelu_grad*
  const void* scale_a =
      nullptr;  // f32, one number each, rowwise [m] and [n]: what A and B of float8 are times
  const void* scale_b = nullptr;
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual size_t workspace() const = 0;  // bytes, 256-byte aligned; of cuBLASLt's at most kGemmWorkspace
  // Thread-safe: may be called at the same time from several threads with different workspaces and streams.
  virtual void enqueue(const GemmArgs& args, void* workspace, Stream& stream) const = 0;
  // Products of several A, or B, at equal distances, in one launch, with the bits that each has alone; false,
  // and nothing is enqueued, where it cannot. A distance of 0 reads the same one for all.
  struct Distances {
    int64_t count = 1, a = 0, b = 0, d = 0;  // bytes
  };
  virtual bool enqueue_together(const GemmArgs&, const Distances&, void*, Stream&) const { return false; }
  // Options and the algorithm's whole configuration: equal text on equal devices and library versions means
  // equal bits.
  virtual const std::string& algorithm() const = 0;
  virtual double flops() const = 0;
};

inline constexpr size_t kGemmWorkspace = size_t{32} << 20;
inline constexpr size_t kTogetherWorkspace = size_t{64} << 10;  // of products that may run together

// Of cuBLASLt's choices in its order, by their clusters (cublasLtClusterShape_t), the one that is taken
// first: in tf32, of results that are few waves of tiles, the first of clusters 1 x 1 or 1 x 2 where it sets
// 2 x 1 first, which takes up to a third longer there (an H200, cuBLASLt 13.1). Of others its own.
size_t preferred_choice(const GemmOptions& options, std::span<const int> clusters);
inline constexpr int64_t kFewElements = int64_t{4} * 132 * 128 * 256;  // four waves of tiles on an H200
inline constexpr int kChoices = 8;                                     // that are looked at
// The preferred choice; null when it has no algorithm for these options. InternalError for types that it
// does not take.
std::unique_ptr<Gemm> make_gemm(CudaDevice& device, const GemmOptions& options);
// The preferred choice, then cuBLASLt's, best guess first, at most `count`.
std::vector<std::unique_ptr<Gemm>> gemm_candidates(CudaDevice& device, const GemmOptions& options, int count);
// Milliseconds per launch, the median of `rounds` rounds of several launches on scratch memory of its own.
double time_gemm(CudaDevice& device, const Gemm& gemm, const GemmOptions& options, int rounds = 5);
// The first and the last `bytes` bytes (fewer where the product is smaller) of the product of two matrices of
// random numbers, the same at every call.
std::vector<std::byte> gemm_sample(CudaDevice& device, const Gemm& gemm, const GemmOptions& options,
                                   size_t bytes);
// The fastest of the first `count` choices by the clock. Two runs may choose differently, so the ranks of a
// run must share one choice (its algorithm() text): nothing calls this by default.
std::unique_ptr<Gemm> tune_gemm(CudaDevice& device, const GemmOptions& options, int count = 8);

}  // namespace lockstep::compiler::cuda
