// The causal backward pass of attention on Hopper, by kernels of the room: where cuDNN's is deterministic at
// a price, since it keeps the gradients of all scores in memory between two kernels.
#pragma once

#include <memory>
#include <string>

#include "compiler/codegen/cuda/attention.h"

namespace lockstep::compiler::cuda {

// Shared memory of a block of sdpa_tiles, which takes a multiprocessor for itself.
inline constexpr int kHopperAttentionBytes = 229376 + 16 * 128 + 256;

// Why these kernels cannot run a call, or empty: bf16, backward, causal without other masks, head size 64 or
// 128, as many queries as keys and multiples of 128, strides of 16 bytes, on compute capability 9.0 with a
// driver that encodes tensor maps (12.0 or newer).
std::string unfit_for_hopper(const AttentionShape& shape, const Properties& device);

// Whether a call that can run so is faster than cuDNN's deterministic pass: long sequences are
// (docs/performance.md).
bool pays_on_hopper(const AttentionShape& shape);

// sdpa_rows, sdpa_tiles and sdpa_results for head size 64 or 128; in an order of the shape alone.
std::string hopper_attention_source(int64_t size);
// Its parts: places and instructions; the kernels around the tiles.
std::string hopper_attention_instructions(int64_t size);
std::string hopper_attention_ends();

// dq, dk and dv of one call, each rounded to bf16 once from sums in f32. Memory between its kernels: f32 sums
// of dq, dk and dv, and two numbers a query. `cache_dir`: of kernels, as in TargetOptions.
std::unique_ptr<LibraryCall> make_hopper_attention(CudaDevice& device, const AttentionShape& shape,
                                                   const std::string& cache_dir);

}  // namespace lockstep::compiler::cuda
