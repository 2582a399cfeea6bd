// Images, [batch, channels, height, width], of floats.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// [b, c r r, h, w] -> [b, c, h r, w r]: each r x r channels become places, and back. Of any dtype. As
// PyTorch.
Tensor pixel_shuffle(Tensor x, int64_t r, Here at = Here::current());
Tensor pixel_unshuffle(Tensor x, int64_t r, Here at = Here::current());
// The places of the last dims, as many as `size` has, read at another resolution. nearest: place floor(i in /
// out), in whole numbers (PyTorch computes the place in f32). Gradient: dy added at the places read. As
// PyTorch.
Tensor interpolate_nearest(Tensor x, Shape size, Here at = Here::current());
// Linear between the two nearest places along each of these dims: bilinear for two. With align_corners the
// outer places lie on one another, else their borders do. In f32 (f64 for f64), a contraction with the
// weights along each dim; rounded once. As PyTorch without antialias.
Tensor interpolate_linear(Tensor x, Shape size, bool align_corners = false, Here at = Here::current());

}  // namespace lockstep
