// Source of the kernels of fused bodies: one C++ function per body; equal bodies share one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// A kernel over dense row-major buffers. `args` are the body's inputs in order, each starting at its begin
// (KernelSource::begins), then its outputs. Bits do not depend on `threads`.
using KernelFn = void (*)(void* const* args, int threads);

// One launch updates many tensors of one dtype. `table` has, per tensor, the pointers of the per-element
// inputs, then of the tensor's own scalars, then of the outputs, in body order. `numels` are the elements per
// tensor. `per_tensor` are the per-tensor scalars (f32), as many per tensor as the body has. `scalars` points
// to the shared rank-0 inputs, in body order.
using MultiTensorFn = void (*)(void* const* table, const int64_t* numels, const float* per_tensor,
                               int64_t tensors, void* const* scalars, int threads);

struct KernelSource {
  std::string name;  // "k_" and a hash of the normalised body, or of the text: equal structure, equal name
  std::string text;  // extern "C" functions; each translation unit adds the prelude that they need
  bool multi_tensor = false;
  std::string launch;    // launch sizes, where the target needs them (CUDA)
  size_t workspace = 0;  // bytes of device memory that a run needs in addition to its arguments
  // If an input reads only parts: the offset in elements of its argument from the first element; else empty.
  // Bodies that differ only in these share a kernel: equal steps of an unrolled recurrence, equal columns.
  std::vector<int64_t> begins;
  double flops = 0;  // element operations of a run, approximate; a costly function counts as its parts
};

// Source of a body of primitives: pointwise, creation, random, reduce, view, take. All reductions must have
// one space: the same rows and columns, over trailing dims, over leading dims, or both. Everything else
// follows by index. InternalError naming the reason otherwise.
KernelSource generate_kernel(const Graph& body);

// Whether one kernel can hold the body; `reason` says why not.
bool fits_one_kernel(const Graph& body, std::string* reason = nullptr);

// The cost of a body, for fusion: about the number of vector instructions, and the loads that are gathered
// lane by lane (per vector of columns).
struct KernelCost {
  bool fits = false;
  double work = 0, dear = 0;  // dear: the part in exp, tanh and similar functions
  int gathers = 0;
  // For a body that sums over rows and over columns: the sizes of its space.
  struct BothWays {
    int64_t rows = 0, columns = 0;
  };
  std::optional<BothWays> both_ways = {};
};
KernelCost kernel_cost(const Graph& body);

// Whether output `output` may share the buffer of input `input` (positions in the body). They must have the
// same type and size, and every element must be read at the index at which it is later written.
bool can_alias(const Graph& body, int output, int input);

// The body of an update op (adamw, sgd) for one tensor: per-element inputs and outputs f32[n], and shared
// scalars as InputKind::scalar. "weight_decay" is always an InputKind::value of rank 0, not an attribute,
// because it differs from tensor to tensor.
Graph multi_tensor_body(OpId op, const Attrs& attrs, DType dtype);
// An update's body that keeps the old values unless |gate k| <= limit k for every k; a NaN is within no
// limit. Output o replaces the input at place replaced[o] among the per-element inputs (replaced_inputs in
// core/table/updates.h). An output that replaces nothing is always written. The shared scalars gate0, limit0,
// gate1, ... are appended: gates of these dtypes, limits f32. An update that is applied has the bits of
// `body`.
Graph gated_body(Graph body, const std::vector<int>& replaced, const std::vector<DType>& gates);
// The body with these inputs in bf16: each is widened, which is exact, before it is read.
Graph body_of_halves(const Graph& body, const std::vector<int>& inputs);
// Kind of an output of a multi-tensor body that is a maximum. The kernel stores only the largest element, in
// one f32, unless the stored value is larger. Elements are >= 0, or NaN, which counts as the largest.
inline constexpr OutputKind kLargest = OutputKind::metric;
// The body that writes its first output, in f32 or bf16, a second time in `dtype`, a float8: the bf16 value
// times a scale, rounded. Two scalars per tensor are appended: the scale and, with `gates`, the previous
// scale, which is used if the gates let no update happen. A last output, f32, is the largest magnitude in
// bf16 (kLargest).
Graph body_by_scale(const Graph& body, DType dtype, size_t gates);
// The body with one more output, the largest magnitude of its last one (kLargest).
Graph body_with_largest(const Graph& body);
// Kernel with the MultiTensorFn signature; the body is pointwise. Inputs of rank 1 are per element. Inputs of
// rank 0 are shared (kind scalar), per tensor by value (kind value), or per tensor by pointer (kind state).
KernelSource generate_multi_tensor(const Graph& body);

}  // namespace lockstep::compiler
