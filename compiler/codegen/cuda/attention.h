// The parts of attention on CUDA: the shape of a call, how a backward pass is cut into pieces, cuDNN's plans,
// and the room's own kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/cudnn.h"
#include "compiler/codegen/cuda/source_module.h"
#include "compiler/codegen/library/library.h"
#include "core/device/cuda/cuda_device.h"
#include "core/ir/graph.h"
#include "core/ops/attention.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, of core

// Where [batch, tokens, heads, size] with a dense last dim lies: strides in elements. A dim of size 1 has the
// stride of a packed tensor.
struct HeadView {
  int64_t batch = 0, token = 0, head = 0;
};

// Where a mask or a bias over the scores [batch, heads, queries, keys] lies: strides in elements, 0 along its
// dims of size 1.
struct ScoreView {
  int64_t batch = 0, head = 0, token = 0, key = 0;
};

// One sdpa (do to dv unused) or sdpa_grad call.
struct AttentionShape {
  DType dtype = DType::f32;
  bool backward = false;
  AttentionReads reads;  // masks, and where they stand among the arguments
  double scale = 1;
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, size = 0;
  HeadView q, k, v, o, grad, dq, dk, dv;
  ScoreView mask, bias;
};
AttentionShape attention_shape(const Node& node, const std::vector<Operand>& in,
                               const std::vector<Operand>& out);
std::string attention_text(const AttentionShape& shape);  // "sdpa_grad bf16 b=16 t=1024 h=12/12 d=64 causal"
double attention_flops(
    const AttentionShape& shape);  // multiplications and additions of the pairs that causal and window leave

// Pointers of one call; lse is [batch, heads, queries], dense.
struct AttentionPointers {
  void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *lse = nullptr, *grad = nullptr, *dq = nullptr,
       *dk = nullptr, *dv = nullptr, *dbias = nullptr;
  const void *lengths = nullptr, *documents = nullptr, *mask = nullptr, *bias = nullptr;
};
AttentionPointers attention_pointers(const AttentionShape& shape,
                                     void* const* args);  // args in the order of the op

// A part of a call: batches [batch, batch + batches) and key heads [kv_head, kv_head + kv_heads) with their
// query heads.
struct AttentionPiece {
  int64_t batch = 0, batches = 0, kv_head = 0, kv_heads = 0;
};
// Bytes that cuDNN's deterministic backward pass keeps of scores: batch * heads * queries * keys of 2 bytes,
// lengths rounded up to 64 and 128 (cudnn-frontend 1.32, SDPA backward, the dP workspace).
int64_t score_bytes(const AttentionShape& shape);
// Pieces of nearly equal size whose scores stay within `cap` bytes: whole batches where one fits, else key
// heads of one batch (at least one key head). A function of the shape and the cap; one piece when everything
// fits. Pieces have at most two sizes.
std::vector<AttentionPiece> cut_attention(const AttentionShape& shape, int64_t cap);
// The same where a key head of a batch has `per_head` bytes of scores.
std::vector<AttentionPiece> cut_attention(const AttentionShape& shape, int64_t per_head, int64_t cap);
// The cap of a device: 1/32 of the device's memory, at least kLeastScoreCap and at most kMostScoreCap. Fewer
// pieces are faster.
inline constexpr int64_t kLeastScoreCap = int64_t{1} << 30, kMostScoreCap = int64_t{4} << 30;
int64_t score_cap(int64_t device_bytes);
AttentionShape shape_of_piece(const AttentionShape& shape, const AttentionPiece& piece);
AttentionPointers pointers_of_piece(const AttentionShape& shape, const AttentionPiece& piece,
                                    AttentionPointers pointers);

// A cuDNN execution plan, shared by calls of equal shape. Thread-safe.
class SdpaPlan {
 public:
  virtual ~SdpaPlan() = default;
  virtual int64_t workspace() const = 0;        // bytes, 256-byte aligned
  virtual const std::string& name() const = 0;  // engine and knobs, in cuDNN's words
  virtual void enqueue(const AttentionPointers& pointers, void* workspace, Stream& stream) const = 0;
};
// The plan of one piece (bf16 or f16), built at the first call. Null when cuDNN refuses the shape; `refused`
// then says why. The backward pass is deterministic unless asked otherwise (only the benchmark does).
// UserError when cuDNN cannot be opened.
std::shared_ptr<const SdpaPlan> plan_sdpa(CudaDevice& device, const AttentionShape& shape, bool deterministic,
                                          std::string& refused);
// Launches in order; none of a grid of 0.
struct AttentionLaunch {
  const char* kernel;
  int64_t grid;
  int shared_bytes;
  int threads = 256;
};
// Takes empty grids out. InternalError: a grid that no launch can have.
void check_launches(std::vector<AttentionLaunch>& launches);
// The kernel of each, of one text.
std::vector<SourceKernel> kernels_of(const std::vector<AttentionLaunch>& launches,
                                     const std::shared_ptr<const SourceModule>& module);
// Enqueues them; each has its kernel, and all one parameter, which lies at `args`.
void enqueue_launches(const std::vector<AttentionLaunch>& launches, const std::vector<SourceKernel>& kernels,
                      void* args, Stream& stream);
// Kernels of the room: CUDA C++ of sdpa_forward, or of sdpa_delta, sdpa_keys and sdpa_queries, whose
// parameter is one AttentionArgs by value. They add in an order of the shape alone.
struct AttentionKernels {
  std::string name, source;
  std::vector<AttentionLaunch> launches;
};

// The room's tiled kernels: any float dtype, any lengths and masks, head sizes up to 256. Sums are f32 (f64
// for f64).
struct AttentionTiles {
  int rows = 0;                               // of queries and of keys per block: 64, 32 or 16
  int forward_bytes = 0, backward_bytes = 0;  // shared memory per block
};
// UserError when the head size is above 256 or a block of `shared_per_block` bytes cannot hold the smallest
// tiles.
AttentionTiles attention_tiles(const AttentionShape& shape, int shared_per_block);
std::string attention_source(const AttentionShape& shape, int tile_rows);
AttentionKernels tiled_attention(const AttentionShape& shape, int shared_per_block);

// The room's kernels on tensor cores. With `tf32`, products of f32 may read TF32; without, each number of f32
// is two of TF32, and a product three. TF32 holds every number of bf16 and f16; of their probabilities and
// the gradients of their scores products read TF32, too. Sums are f32. Any lengths and masks. Why a call
// cannot run so, or empty: head sizes are multiples of 8 up to 128, strides multiples of 4.
std::string unfit_for_tensor_cores(const AttentionShape& shape, int shared_per_block);
AttentionKernels tensor_attention(const AttentionShape& shape, bool tf32);
std::string tensor_tiles_source();  // of its tiles, after the prelude and D, DP, N, PARTS, HELD and THREADS

// CUDA C++ of the numbers, arguments and masks that all of the room's attention kernels share, and of
// sdpa_delta.
std::string attention_prelude(const AttentionShape& shape);
std::string attention_delta_source();
struct AttentionArgs {
  const void *q, *k, *v, *o, *grad;
  void *out, *dq, *dk, *dv;
  void *lse, *delta;  // delta: [batch, heads, queries], scratch of the backward pass
  HeadView qs, ks, vs, os, gs, dqs, dks, dvs;
  int64_t batch, heads, kv_heads;
  int queries, keys;
  double scale;
  const void *lengths, *documents, *mask, *bias;
  void* dbias;
  ScoreView masks, biases;
};
AttentionArgs attention_args(const AttentionShape& shape, const AttentionPointers& pointers, void* delta);
// `why`: for the certificate, why cuDNN does not run it. `cache_dir`: of kernels, as in TargetOptions.
std::unique_ptr<LibraryCall> make_own_attention(CudaDevice& device, const AttentionShape& shape,
                                                AttentionKernels kernels, const std::string& why,
                                                const std::string& cache_dir);

// Attention as products of matrices with softmax between them, for what cuDNN does not take: the scores of a
// piece are in memory, f32, and the five products run on cuBLASLt.
// Why a call cannot run so, or should not; empty where it should: f32, bf16 and f16, as many key heads as
// heads, strides and head sizes of 16 bytes, scores of one head within `cap` bytes, and work enough for its
// launches.
std::string unfit_for_products(const AttentionShape& shape, int64_t cap, bool tf32);
// Bytes of workspace for the scores of one head of one batch, of what a backward pass keeps beside them, too.
int64_t product_bytes(const AttentionShape& shape);
// CUDA C++ of sdpa_weights, or of sdpa_score_gradients.
std::string attention_rows_source(const AttentionShape& shape);
// `cap`: bytes of a piece's scores. `tf32`: f32 operands of the products may be rounded to TF32. Null where
// cuBLASLt has no algorithm.
std::unique_ptr<LibraryCall> make_product_attention(CudaDevice& device, const AttentionShape& shape,
                                                    int64_t cap, bool tf32, const std::string& why,
                                                    const std::string& cache_dir);

// The causal backward pass of attention on Hopper, by kernels of the room: where cuDNN's is deterministic at
// a price, since it keeps the gradients of all scores in memory between two kernels.
// Shared memory of a block of sdpa_tiles, which takes a multiprocessor for itself.
inline constexpr int kHopperAttentionBytes = 229376 + 16 * 128 + 256;

// Why these kernels cannot run a call, or empty: bf16, backward, causal without other masks, head size 64 or
// 128, as many queries as keys and multiples of 128, strides of 16 bytes, on compute capability 9.0 with a
// driver that encodes tensor maps (12.0 or newer).
std::string unfit_for_hopper(const AttentionShape& shape, const Properties& device);

// Whether a call that can run so is faster than cuDNN's deterministic pass: long sequences are
// (bench/results/float8-and-tf32-2026-11-26.md).
bool pays_on_hopper(const AttentionShape& shape);

// sdpa_rows, sdpa_tiles and sdpa_results for head size 64 or 128; in an order of the shape alone. `lanes`:
// how many lanes of a warp tell others that it is done. One speaks for all, after they have met; racecheck of
// compute-sanitizer takes an arrival for its own lane alone, and sees order where all 32 arrive.
std::string hopper_attention_source(int64_t size, int lanes = 1);
std::vector<std::string> hopper_attention_flags();  // of NVRTC: lambdas without a word run on the device
// Its parts: places and instructions; the kernels around the tiles.
std::string hopper_attention_instructions(int64_t size);
std::string hopper_attention_ends();

// dq, dk and dv of one call, each rounded to bf16 once from sums in f32. Memory between its kernels: f32 sums
// of dq, dk and dv, and two numbers a query. `cache_dir`: of kernels, as in TargetOptions. `lanes`: as above.
std::unique_ptr<LibraryCall> make_hopper_attention(CudaDevice& device, const AttentionShape& shape,
                                                   const std::string& cache_dir, int lanes = 1);

}  // namespace lockstep::compiler::cuda
