// Kernels of fused bodies, as source: one C++ function per body, equal bodies sharing one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// A kernel over dense row-major buffers: args are the body's inputs in order, each from its begin
// (KernelSource::begins) on, then its outputs. No bit depends on `threads`.
using KernelFn = void (*)(void* const* args, int threads);

// One launch updates many tensors of one dtype. `table` has, per tensor, the pointers of the per-element
// inputs, then of its own scalars, then of the outputs, in body order; `numels` the elements per tensor;
// `per_tensor` the per-tensor scalars (f32), as many per tensor as the body has; `scalars` points to the
// shared rank-0 inputs, in body order.
using MultiTensorFn = void (*)(void* const* table, const int64_t* numels, const float* per_tensor,
                               int64_t tensors, void* const* scalars, int threads);

struct KernelSource {
  std::string name;  // "k_" and a hash of the normalised body, or of the text: equal structure, equal name
  std::string text;  // extern "C" functions; the prelude that they need is added per translation unit
  bool multi_tensor = false;
  std::string launch;    // launch sizes, where the target needs them (CUDA)
  size_t workspace = 0;  // bytes of device memory that a run needs beside its arguments
  // Elements by which each input's argument lies behind its first one, where it reads parts; else none.
  // Bodies that differ in these alone share a kernel: equal steps of an unrolled recurrence, equal columns.
  std::vector<int64_t> begins;
  double flops = 0;  // operations on elements of a run, about: dear functions count as what they are made of
};

// Source of a body of primitives: pointwise, creation, random, reduce, view, take. Reductions must agree on
// one space: the same rows and columns, over trailing dims, over leading dims, or both; everything else
// follows by index. InternalError naming the reason otherwise.
KernelSource generate_kernel(const Graph& body);

// Whether one kernel can hold the body; `reason` says why not.
bool fits_one_kernel(const Graph& body, std::string* reason = nullptr);

// What a body costs, for fusion: about vector instructions in all, and loads that are gathered lane by lane
// (per vector of columns).
struct KernelCost {
  bool fits = false;
  double work = 0, dear = 0;  // dear: the part in exp, tanh and the like
  int gathers = 0;
  // Of a body that sums over rows and over columns: the sizes of its space.
  struct BothWays {
    int64_t rows = 0, columns = 0;
  };
  std::optional<BothWays> both_ways = {};
};
KernelCost kernel_cost(const Graph& body);

// True when output `output` may lie in the buffer of input `input` (positions in the body): same type and
// size, and every element is read at the index at which it is written, before it is written.
bool can_alias(const Graph& body, int output, int input);

// The body of an update row (adamw, sgd) for one tensor: per-element inputs and outputs f32[n], shared
// scalars as InputKind::scalar, and "weight_decay" as InputKind::value of rank 0, whatever attrs say: it
// differs from tensor to tensor.
Graph multi_tensor_body(OpId op, const Attrs& attrs, DType dtype);
// An update's body that keeps what it would replace unless |gate k| <= limit k for every k; a NaN is within
// no limit. Output o replaces the input of place replaced[o] among the per-element inputs (replaced_inputs in
// core/ops/updates.h); one that replaces nothing is made in any case. Shared scalars gate0, limit0, gate1,
// ... are appended: gates of these dtypes, limits f32. Bits of an update that is made are those of `body`.
Graph gated_body(Graph body, const std::vector<int>& replaced, const std::vector<DType>& gates);
// The body with these inputs in bf16: each is widened, which is exact, before anything reads it.
Graph body_of_halves(const Graph& body, const std::vector<int>& inputs);
// An output of a multi-tensor body, f32, of which a kernel leaves the largest element alone, in one f32,
// unless what stands there is larger. Elements are >= 0, or NaN, which is larger than any.
inline constexpr OutputKind kLargest = OutputKind::metric;
// The body that writes its first output, in f32 or bf16, once more in `dtype`, float8: in bf16, times a
// scale, and rounded. The scale, and the one that it has where `gates` let nothing be made, are scalars of
// the tensor, appended in this order; the latter only where there are gates. A last output, f32, is the
// largest magnitude in bf16 (kLargest).
Graph body_by_scale(const Graph& body, DType dtype, size_t gates);
// The body with one more output, the largest magnitude of its last one (kLargest).
Graph body_with_largest(const Graph& body);
// Kernel with the MultiTensorFn signature. Inputs of rank 1 are per element, rank-0 inputs of kind scalar are
// shared, of kind value per tensor, of kind state per tensor, too, by pointer. The body is pointwise.
KernelSource generate_multi_tensor(const Graph& body);

}  // namespace lockstep::compiler
