// Linear layers in float8 whose scales follow from earlier steps (delayed scaling).
#pragma once

#include "core/functions/float8.h"

namespace lockstep {

// Rows of an amax history (largest magnitudes): of a layer's input, of its weight, and of the gradient of its
// output. A row has an entry for each of the last steps; 0 means none.
enum AmaxRow : uint8_t { kAmaxOfInput, kAmaxOfWeight, kAmaxOfGradient };
inline constexpr int64_t kAmaxRows = 3;

// linear_float8 with one scale per tensor, 448 (e5m2: 57344) / the largest entry of its row of `history`, f32
// [3, steps]. So the scale is known before the tensor (Transformer Engine's and Megatron's delayed recipe,
// with `max`, without a margin). Values beyond the scaled range become the format's largest number. A row
// without entries has the scale 1; for a gradient it has the count that the loss is divided by, as if the
// loss were a sum. A NaN or an infinity makes the products of its tensor NaN. In a compiled step the pass
// record_amax updates the history, and all layers that read x use the scale of the first one (share_scales).
// Gradients are as in linear_float8, and the history has none. UserError as linear_float8, and for a history
// of another shape or dtype.
Tensor delayed_linear_float8(Tensor x, Tensor weight, Tensor history, Tensor bias = {},
                             DType gradients = DType::f8_e5m2, Here at = Here::current());

// x rounded to `dtype` by the scale of `most`, f32 [], an estimate of max |x| that x may exceed. The inverses
// are NaN if x has a NaN or an infinity. `columns` is as in amax(). `where_made`: `rows` is computed by
// pointwise ops, which can fuse into the kernel that makes x, and `turned` is transposed from it; otherwise
// one pass over x makes both. The bits are the same.
Quantized quantize_by(Tensor x, Tensor most, DType dtype, bool columns = false, bool where_made = true,
                      Here at = Here::current());

// The same for `rows` only, by a scale, f32 []: pointwise, so it can fuse into any kernel that makes x.
Tensor rounded_by_scale(Tensor x, Tensor scale, DType dtype, Here at = Here::current());
// The scales of tensors from this row of their histories, each f32 [3, steps] with the same steps -> f32
// [histories]; 1 for a tensor without entries.
Tensor delayed_scales(const std::vector<Tensor>& histories, AmaxRow row, DType dtype,
                      Here at = Here::current());

}  // namespace lockstep
