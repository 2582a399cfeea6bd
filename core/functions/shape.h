// Views: the same elements at other positions, of any dtype, exactly.
#pragma once

#include "core/ops/apply.h"
#include "core/types/number.h"

namespace lockstep {

// The elements in row-major order in another shape with the same number of elements; one size may be -1 and
// follows from the rest. Gradient: dy in x's shape. As PyTorch.
Tensor reshape(Tensor x, Shape shape, Here at = Here::current());
// Dims first ... last as one. As PyTorch.
Tensor flatten(Tensor x, int first = 0, int last = -1, Here at = Here::current());
// Dim `dim` as several, whose product it is; one of them may be -1. As PyTorch.
Tensor unflatten(Tensor x, int dim, Shape sizes, Here at = Here::current());
// Without the dims of size 1, or without dim `dim`, if its size is 1. As PyTorch.
Tensor squeeze(TensorAt x);
Tensor squeeze(Tensor x, int dim, Here at = Here::current());
// A new dim of size 1 before dim `dim` of the result, -ndim - 1 <= dim <= ndim. As PyTorch.
Tensor unsqueeze(Tensor x, int dim, Here at = Here::current());
// Dim i of the result is dim order[i] of x: [a, b, c] with {2, 0, 1} -> [c, a, b]. `order` names every dim
// once. Gradient: dy permuted back. As PyTorch.
Tensor permute(Tensor x, std::vector<int64_t> order, Here at = Here::current());
// Dims a and b exchanged. Gradient: dy with the same dims exchanged. As PyTorch.
Tensor transpose(Tensor x, int a, int b, Here at = Here::current());
// Moves dim `from` to position `to`; the others keep their order. As PyTorch.
Tensor movedim(Tensor x, int from, int to, Here at = Here::current());

// x repeated along new leading dims and along dims of size 1, NumPy's rule. Gradient: dy summed over what was
// repeated (bf16, f16: in f32, rounded once). As PyTorch.
Tensor broadcast_to(Tensor x, Shape shape, Here at = Here::current());
// The same, where -1 leaves a dim as it is. As PyTorch.
Tensor expand(Tensor x, Shape shape, Here at = Here::current());
// Dim i of x becomes dim dims[i] of the result, in any order, and has its size or 1; x is repeated along all
// other dims of the result. Gradient: as in broadcast_to. As XLA's BroadcastInDim.
Tensor broadcast_dims(Tensor x, Shape shape, std::vector<int64_t> dims, Here at = Here::current());
// x `times[d]` times along dim d, one copy after another; `times` may have more entries than x has dims,
// which are new leading ones. Gradient: the sum over the copies. As PyTorch's repeat; tile takes fewer
// entries, too.
Tensor repeat(Tensor x, std::vector<int64_t> times, Here at = Here::current());
Tensor tile(Tensor x, std::vector<int64_t> times, Here at = Here::current());
// Each element `times` times in a row along `dim`. Gradient: the sum over them. As PyTorch.
Tensor repeat_interleave(Tensor x, int64_t times, int dim, Here at = Here::current());
// Coordinates for grids: one-dim tensors [n0], [n1], ... -> as many tensors [n0, n1, ...], the i-th of which
// holds the i-th input along dim i. As PyTorch's indexing="ij".
std::vector<Tensor> meshgrid(std::vector<Tensor> xs, Here at = Here::current());

// Elements start, start + step, ... before limit along `dim`. Bounds below 0 count from the end, and bounds
// outside are clamped, as in Python; step >= 1. Gradient: dy there, 0 elsewhere. As x[start:limit:step].
Tensor slice(Tensor x, int dim, int64_t start, int64_t limit, int64_t step, Here at = Here::current());
// The same with step 1; the bounds must be inside: -size <= start <= limit <= size, else UserError. As
// narrow.
Tensor slice(Tensor x, int dim, int64_t start, int64_t limit, Here at = Here::current());
// Element `index` along `dim`, which vanishes; below 0 from the end. As PyTorch.
Tensor select(Tensor x, int dim, int64_t index, Here at = Here::current());
// Consecutive parts along `dim` of these sizes, which add up to the whole. Gradient: 0 outside the part. As
// PyTorch.
std::vector<Tensor> split(Tensor x, int dim, std::vector<int64_t> sizes, Here at = Here::current());
// `count` parts along `dim`, equal but for the last, which may be smaller; fewer where there are not as many.
// As PyTorch.
std::vector<Tensor> chunk(Tensor x, int64_t count, int dim = 0, Here at = Here::current());
// Every element along `dim`, which vanishes. As PyTorch.
std::vector<Tensor> unbind(Tensor x, int dim = 0, Here at = Here::current());
// One after another along `dim`; the other dims are equal. Gradient: to each its part of dy. As torch.cat.
Tensor concat(std::vector<Tensor> xs, int dim, Here at = Here::current());
// One after another along a new dim `dim` of the result; all shapes are equal. As PyTorch.
Tensor stack(std::vector<Tensor> xs, int dim = 0, Here at = Here::current());

// lo[d] times `value` before and hi[d] times after the elements of dim d: one number per dim, none negative.
// UserError for a `value` that x's dtype cannot represent. Gradient: the part of dy that x fills.
Tensor pad(Tensor x, std::vector<int64_t> lo, std::vector<int64_t> hi, Number value,
           Here at = Here::current());
// Values of the padding: x mirrored without the edge (lo, hi < size), the edge repeated, or x from the other
// end (lo, hi <= size). Gradient: summed over the copies. As PyTorch's pad.
enum class PadMode { reflect, replicate, circular };
Tensor pad(Tensor x, std::vector<int64_t> lo, std::vector<int64_t> hi, PadMode mode,
           Here at = Here::current());
// Elements moved by `shift` places along `dim`; those that leave at one end come in at the other. As PyTorch.
Tensor roll(Tensor x, int64_t shift, int dim, Here at = Here::current());

}  // namespace lockstep
