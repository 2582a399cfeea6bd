// Matrix products in float8: operands are scaled by their largest magnitude and rounded to 8 bits, sums are
// in f32, and the result is rounded once to bf16.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// x weight^T + bias as linear(), of bf16: [..., in], [out, in], [out] -> [..., out]; an empty Tensor is no
// bias. x and the weight are rounded to f8_e4m3, each with its own scale, 448 / max |values|, of this call
// (current scaling; torchao's tensorwise recipe). The gradients of x and of the weight are such products,
// too, with dy in `gradients`; that of the bias is the sum of dy, unrounded. Each operand is rounded once for
// all products that read it. `rowwise`: one scale per row of an operand, along the dim that the product sums;
// so x, dy and the weight are rounded by rows for one product and by columns for another. (torchao's rowwise
// recipe has scales that are powers of 2, dy in f8_e4m3, and gradients that accumulate as its forward does.)
// Rows, inputs and outputs must be multiples of 16. f64 is not rounded: it is for tests of gradients.
// UserError for other sizes or dtypes.
Tensor linear_float8(Tensor x, Tensor weight, Tensor bias = {}, DType gradients = DType::f8_e5m2,
                     bool rowwise = false, Here at = Here::current());
// Whether linear_float8 takes these shapes.
bool fits_float8(const Shape& x, const Shape& weight);
inline constexpr int64_t kFloat8Multiple = 16;  // of matrix units that read 16 bytes at a time

// max |x| over all elements: [...] -> f32 []; a NaN gives NaN. `columns`: computes the maxima of columns
// first, for a tensor whose columns are also summed; the value is the same.
Tensor amax(Tensor x, bool columns = false, Here at = Here::current());

// max |x| of each row: [..., k] -> f32 [rows]; of each column: -> f32 [k]. x has at least one dim and one
// element.
Tensor amax_of_rows(Tensor x, Here at = Here::current());
Tensor amax_of_columns(Tensor x, Here at = Here::current());

// A tensor [..., k] in float8: its elements times the inverse of their scale approximate the original ones.
struct Quantized {
  Tensor rows;            // [..., k]
  Tensor turned;          // [k, rows]: the same elements for products that sum over rows
  Tensor inverse;         // f32 [], of one scale, or [rows], of each row
  Tensor inverse_turned;  // the same [], or [k], of each column
};
// x of f32 or bf16 [..., k], rounded to `dtype` by the scale of its amax, which is finite also for zeros.
Quantized quantize(Tensor x, DType dtype, bool columns = false, Here at = Here::current());
// The same with a scale for each row, and in `turned` for each column.
Quantized quantize_rowwise(Tensor x, DType dtype, Here at = Here::current());
// The sum over k of a b, times the inverses of both scales, plus the bias: a [..., k], b [n, k], each as
// `rows` or `turned` -> bf16 [..., n]. The inverses are both [], or [rows of a] and [n]; the bias is [n] or
// empty. `fast`: sums in the matrix unit's own accumulator, which keeps fewer bits (as torch._scaled_mm's
// use_fast_accum).
Tensor scaled_mm(Tensor a, Tensor b, Tensor inverse_a, Tensor inverse_b, Tensor bias = {}, bool fast = false,
                 Here at = Here::current());

}  // namespace lockstep
