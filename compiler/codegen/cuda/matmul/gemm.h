// A matrix product on cuBLASLt (make_gemm), prepared once: D = epilogue(A B), batched through strides,
// row-major. The algorithm is chosen when the product is made, from its description only. No algorithm here
// adds in an order that depends on timing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_device.h"
#include "core/types/dtype.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

// The operation after the sum, before the one rounding to the output type. Vectors are dense and of the
// output type.
enum class Epilogue {
  none,
  bias,           // D += bias[n], the same for every row
  gelu_bias_aux,  // aux = A B + bias[n]; D = gelu(aux), tanh form
  gelu_grad,      // D = (A B) * gelu'(aux), tanh form
  // As gelu_grad, and sums[n] = the sum of D's rows: the gradient of the bias before the gelu.
  gelu_grad_sums,
  sums_a,  // D = A B, sums[m] = sum over k of A: the gradients of weight (dy^T x) and bias
  sums_b,  // D = A B, and sums[n] = sum over k of B
};
const char* name(Epilogue epilogue);

struct GemmOptions {
  int64_t m = 0, n = 0, k = 0, batch = 1;  // each at least 1
  // A is [m,k], or stored [k,m] if `ta`; B is [k,n], or stored [n,k] if `tb`; D is [m,n].
  bool ta = false, tb = false;
  int64_t lda = 0, ldb = 0, ldd = 0;                 // elements between stored rows
  int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // elements between batches; 0 reads the same A or B
  // in and out are f32 f32; bf16 bf16; f16 f16; bf16 f32; f16 f32; f64 f64; float8 bf16. Sums are f32, f64
  // for f64.
  DType in = DType::f32, out = DType::f32;
  // The type of B if it is not `in`. A and B of float8 have a format and a factor each, and rows of k (B is
  // [n,k]).
  std::optional<DType> in_b = {};
  bool fast = false;     // float8: sums stay in the tensor core's accumulator, which has fewer bits
  bool rowwise = false;  // float8: A has a factor for each row of m, and B for each of n
  bool tf32 = false;     // f32 operands may be rounded to TF32
  Epilogue epilogue = Epilogue::none;
  int64_t ld_aux = 0, stride_aux = 0;  // aux is [m,n] of the output type; multiples of 8, at least n
  // How many of these products may run together (enqueue_together), with one B if `share_b`. The algorithm is
  // then chosen for that many, with little workspace, if one exists. Batch is 1.
  int64_t together = 1;
  bool share_b = false;
  int alignment = 16;  // bytes: every pointer given to enqueue is a multiple of it
  bool operator==(const GemmOptions&) const = default;
};

// "m=65536 n=768 k=3072 bf16>bf16 A:[k,m]/768 +bias". Equal options have equal text.
std::string text(const GemmOptions& options);

struct GemmArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;
  void* sums = nullptr;
  void* aux = nullptr;  // written by gelu_bias_aux, read by gelu_grad*
  // Factors of A and B in float8: f32, one number each; [m] and [n] if `rowwise`.
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual size_t workspace() const = 0;  // bytes, 256-byte aligned; cuBLASLt's: at most kGemmWorkspace
  // Thread-safe: may be called at the same time from several threads with different workspaces and streams.
  virtual void enqueue(const GemmArgs& args, void* workspace, Stream& stream) const = 0;
  // Products of several A, or B, at equal distances, in one launch, with the bits that each has on its own.
  // Returns false and enqueues nothing if it cannot. A distance of 0 reads the same operand for all.
  struct Distances {
    int64_t count = 1, a = 0, b = 0, d = 0;  // bytes
  };
  virtual bool enqueue_together(const GemmArgs&, const Distances&, void*, Stream&) const { return false; }
  // Options and the algorithm's whole configuration. Equal text on equal devices and library versions means
  // equal bits.
  virtual const std::string& algorithm() const = 0;
  virtual double flops() const = 0;
};

inline constexpr size_t kGemmWorkspace = size_t{32} << 20;
inline constexpr size_t kTogetherWorkspace = size_t{64} << 10;  // of products that may run together

// Which of cuBLASLt's choices is used, given the clusters (cublasLtClusterShape_t) of its choices in their
// order. It is cuBLASLt's first, with one exception: TF32 products whose result has few waves of tiles. There
// cuBLASLt puts cluster 2 x 1 first, which takes up to a third longer (H200, cuBLASLt 13.1); the first choice
// of cluster 1 x 1 or 1 x 2 is used instead.
size_t preferred_choice(const GemmOptions& options, std::span<const int> clusters);
inline constexpr int64_t kFewElements = int64_t{4} * 132 * 128 * 256;  // four waves of tiles on an H200
inline constexpr int kChoices = 8;                                     // choices that are examined
// The preferred choice; null if cuBLASLt has no algorithm for these options. InternalError for types that it
// does not support.
std::unique_ptr<Gemm> make_gemm(CudaDevice& device, const GemmOptions& options);
// The preferred choice, then cuBLASLt's in its order, at most `count`.
std::vector<std::unique_ptr<Gemm>> gemm_candidates(CudaDevice& device, const GemmOptions& options, int count);
// Milliseconds per launch: the median of `rounds` rounds of several launches on its own scratch memory.
double time_gemm(CudaDevice& device, const Gemm& gemm, const GemmOptions& options, int rounds = 5);
// The first and the last `bytes` bytes (fewer for a smaller product) of the product of two matrices of random
// numbers, which are the same at every call.
std::vector<std::byte> gemm_sample(CudaDevice& device, const Gemm& gemm, const GemmOptions& options,
                                   size_t bytes);
// The fastest of the first `count` choices by measurement. Two runs may choose differently, so the ranks of a
// run must share one choice (its algorithm() text). Nothing calls this by default.
std::unique_ptr<Gemm> tune_gemm(CudaDevice& device, const GemmOptions& options, int count = 8);

}  // namespace lockstep::compiler::cuda
