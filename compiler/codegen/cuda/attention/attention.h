// Attention on CUDA: the shape of a call, how a backward pass is cut into pieces, cuDNN's plans, and
// generated kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/library/cudnn.h"
#include "compiler/codegen/cuda/source/module.h"
#include "compiler/codegen/library/library.h"
#include "core/device/cuda/cuda_device.h"
#include "core/ir/graph.h"
#include "core/table/attention.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

// Strides in elements of [batch, tokens, heads, size] with a dense last dim. A dim of size 1 has the stride
// of a packed tensor.
struct HeadView {
  int64_t batch = 0, token = 0, head = 0;
};

// Strides in elements of a mask or bias over the scores [batch, heads, queries, keys], 0 along its dims of
// size 1.
struct ScoreView {
  int64_t batch = 0, head = 0, token = 0, key = 0;
};

// One sdpa (do to dv unused) or sdpa_grad call.
struct AttentionShape {
  DType dtype = DType::f32;
  bool backward = false;
  AttentionReads reads;  // masks, and their positions among the arguments
  double scale = 1;
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, size = 0;
  HeadView q, k, v, o, grad, dq, dk, dv;
  ScoreView mask, bias;
};
AttentionShape attention_shape(const Node& node, const std::vector<Operand>& in,
                               const std::vector<Operand>& out);
std::string attention_text(const AttentionShape& shape);  // "sdpa_grad bf16 b=16 t=1024 h=12/12 d=64 causal"
// Multiplications and additions of the pairs that the causal mask and the window keep.
double attention_flops(const AttentionShape& shape);

// Pointers of one call; lse is [batch, heads, queries], dense.
struct AttentionPointers {
  void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *lse = nullptr, *grad = nullptr, *dq = nullptr,
       *dk = nullptr, *dv = nullptr, *dbias = nullptr;
  const void *lengths = nullptr, *documents = nullptr, *mask = nullptr, *bias = nullptr;
};
// `args` are in the order of the op.
AttentionPointers attention_pointers(const AttentionShape& shape, void* const* args);

// A part of a call: batches [batch, batch + batches) and key heads [kv_head, kv_head + kv_heads) with their
// query heads.
struct AttentionPiece {
  int64_t batch = 0, batches = 0, kv_head = 0, kv_heads = 0;
};
// Bytes of scores that cuDNN's deterministic backward pass stores: batch * heads * queries * keys of 2 bytes,
// lengths rounded up to 64 and 128 (cudnn-frontend 1.32, SDPA backward, the dP workspace).
int64_t score_bytes(const AttentionShape& shape);
// Pieces of nearly equal size whose scores take at most `cap` bytes: whole batches if one fits, else key
// heads of one batch (at least one). A function of the shape and the cap; one piece if everything fits.
// Pieces have at most two sizes.
std::vector<AttentionPiece> cut_attention(const AttentionShape& shape, int64_t cap);
// The same, where a key head of a batch has `per_head` bytes of scores.
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
// Launches, in order; none has a grid of 0.
struct AttentionLaunch {
  const char* kernel;
  int64_t grid;
  int shared_bytes;
  int threads = 256;
};
// Removes empty grids. InternalError for a grid that no launch can have.
void check_launches(std::vector<AttentionLaunch>& launches);
// The kernel of each launch, from one source.
std::vector<SourceKernel> kernels_of(const std::vector<AttentionLaunch>& launches,
                                     const std::shared_ptr<const SourceModule>& module);
// Enqueues them, each with its kernel; all read one parameter, stored at `args`.
void enqueue_launches(const std::vector<AttentionLaunch>& launches, const std::vector<SourceKernel>& kernels,
                      void* args, Stream& stream);
// Generated kernels: CUDA C++ of sdpa_forward, or of sdpa_delta, sdpa_keys and sdpa_queries, whose parameter
// is one AttentionArgs by value. The order of their additions depends on the shape only.
struct AttentionKernels {
  std::string name, source;
  std::vector<AttentionLaunch> launches;
};

// The tiled kernels of this folder: any float dtype, any lengths and masks, head sizes up to 256. Sums are
// f32 (f64 for f64).
struct AttentionTiles {
  int rows = 0;                               // of queries and of keys per block: 64, 32 or 16
  int forward_bytes = 0, backward_bytes = 0;  // shared memory per block
};
// UserError when the head size is above 256 or a block of `shared_per_block` bytes cannot hold the smallest
// tiles.
AttentionTiles attention_tiles(const AttentionShape& shape, int shared_per_block);
std::string attention_source(const AttentionShape& shape, int tile_rows);
AttentionKernels tiled_attention(const AttentionShape& shape, int shared_per_block);

// The kernels of this folder on tensor cores. With `tf32`, products of f32 may read TF32. Without it, each
// f32 is split into two TF32 numbers, and a product becomes three. TF32 holds every bf16 and f16 exactly; for
// these dtypes, products of probabilities and of score gradients read TF32, too. Sums are f32. Any lengths
// and masks.
// Why a call cannot use them, or empty. Head sizes must be multiples of 8 up to 128, strides multiples of 4.
std::string unfit_for_tensor_cores(const AttentionShape& shape, int shared_per_block);
AttentionKernels tensor_attention(const AttentionShape& shape, bool tf32);
// The tiles only; follows the prelude and D, DP, N, PARTS, HELD and THREADS.
std::string tensor_tiles_source();

// CUDA C++ of the number types, arguments and masks that all these attention kernels share, and of
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
// `why`: why cuDNN does not run it, for the certificate. `cache_dir`: of kernels, as in TargetOptions.
std::unique_ptr<LibraryCall> make_own_attention(CudaDevice& device, const AttentionShape& shape,
                                                AttentionKernels kernels, const std::string& why,
                                                const std::string& cache_dir);

// Attention as matrix products with softmax between them, for calls that cuDNN refuses. The scores of a piece
// are in memory, in f32; the five products run on cuBLASLt.
//
// Why a call cannot or should not run like this; empty if it should. It needs:
//   - f32, bf16 or f16, and as many key heads as heads;
//   - strides and head sizes that are multiples of 16 bytes;
//   - scores of one head within `cap` bytes, and enough work for its launches.
std::string unfit_for_products(const AttentionShape& shape, int64_t cap, bool tf32);
// Workspace bytes for the scores of one head of one batch, and for what a backward pass stores with them.
int64_t product_bytes(const AttentionShape& shape);
// CUDA C++ of sdpa_weights, or of sdpa_score_gradients.
std::string attention_rows_source(const AttentionShape& shape);
// `cap`: bytes of a piece's scores. `tf32`: f32 operands of the products may be rounded to TF32. Null if
// cuBLASLt has no algorithm.
std::unique_ptr<LibraryCall> make_product_attention(CudaDevice& device, const AttentionShape& shape,
                                                    int64_t cap, bool tf32, const std::string& why,
                                                    const std::string& cache_dir);

// The causal backward pass of attention on Hopper, by kernels of this folder. cuDNN's deterministic pass is
// slower there: it stores the gradients of all scores in memory between two kernels.
// Shared memory of a block of sdpa_tiles, which occupies a whole multiprocessor.
inline constexpr int kHopperAttentionBytes = 229376 + 16 * 128 + 256;

// Why these kernels cannot run a call, or empty. They need:
//   - bf16, a backward pass, a causal mask and no other;
//   - head size 64 or 128, as many queries as keys, both multiples of 128, strides of 16 bytes;
//   - compute capability 9.0 and a driver that encodes tensor maps (12.0 or newer).
std::string unfit_for_hopper(const AttentionShape& shape, const Properties& device);

// Whether a call that these kernels can run is faster than cuDNN's deterministic pass, as long sequences are
// (bench/results/float8-and-tf32-2026-11-26.md).
bool pays_on_hopper(const AttentionShape& shape);

// CUDA C++ of sdpa_rows, sdpa_tiles and sdpa_results for head size 64 or 128; the order of sums depends on
// the shape only. `lanes`: how many lanes of a warp signal that the warp is done. One lane suffices after the
// warp has synchronised. compute-sanitizer's racecheck counts an arrival for its own lane only, so it needs
// all 32.
std::string hopper_attention_source(int64_t size, int lanes = 1);
std::vector<std::string> hopper_attention_flags();  // of NVRTC: unmarked lambdas run on the device
// Its parts: shared memory places and instructions; the kernels before and after the tiles.
std::string hopper_attention_instructions(int64_t size);
std::string hopper_attention_ends();

// dq, dk and dv of one call, each rounded to bf16 once from sums in f32. Memory between its kernels: f32 sums
// of dq, dk and dv, and two numbers per query. `cache_dir`: of kernels, as in TargetOptions. `lanes`: see
// above.
std::unique_ptr<LibraryCall> make_hopper_attention(CudaDevice& device, const AttentionShape& shape,
                                                   const std::string& cache_dir, int lanes = 1);

}  // namespace lockstep::compiler::cuda
