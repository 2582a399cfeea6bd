// Linear layers in float8 whose scales follow from the steps before (delayed scaling).
#pragma once

#include "core/ops/functions/float8.h"

namespace lockstep {

// Rows of a history of largest magnitudes: those of a layer's input, of its weight, of the gradient of its
// output. A row has an entry for each of the last steps; 0 is none.
enum AmaxRow : uint8_t { kAmaxOfInput, kAmaxOfWeight, kAmaxOfGradient };
inline constexpr int64_t kAmaxRows = 3;

// linear_float8 with one scale a tensor, 448 (e5m2: 57344) / the largest entry of its row of `history`, f32
// [3, steps]: so a scale is known before the tensor is (Transformer Engine's and Megatron's delayed recipe,
// with `max`, without a margin). What a tensor has beyond its scale becomes the format's largest number. A
// row without entries has the scale 1, for a gradient the count that the loss is divided by, which takes it
// as if the loss were a sum. A NaN or an infinity makes the products of its tensor NaN. In a compiled step
// the history's output is what record_amax makes of it, and x has the scale that the first layer to read it
// gives it (share_scales); gradients are as linear_float8's, and the history has none. UserError as
// linear_float8, and for a history of another shape or dtype.
Tensor delayed_linear_float8(Tensor x, Tensor weight, Tensor history, Tensor bias = {},
                             DType gradients = DType::f8_e5m2, Here at = Here::current());

// x rounded to `dtype` by the scale of `most`, f32 [], which is at least as large as x is, or is not; its
// inverses are NaN where x has a NaN or an infinity. `columns` as in amax(). `where_made`: its
// rows by ops over elements, which may stand in the kernel that makes x, and what is turned of these; else
// both by one pass over x. The bits are the same.
Quantized quantize_by(Tensor x, Tensor most, DType dtype, bool columns = false, bool where_made = true,
                      Here at = Here::current());

// The same of rows alone, element by element, by a scale, f32 []: what stands in any kernel that makes x.
Tensor rounded_by_scale(Tensor x, Tensor scale, DType dtype, Here at = Here::current());
// The scales of tensors by this row of their histories, f32 [3, steps] each, of as many steps -> f32
// [histories]: of a tensor without entries 1.
Tensor delayed_scales(const std::vector<Tensor>& histories, AmaxRow row, DType dtype,
                      Here at = Here::current());

}  // namespace lockstep
