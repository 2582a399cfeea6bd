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
// By the four nearest places along each of these dims, with Keys' cubic and a = -0.75; places outside are
// those of the border. In f32 (f64 for f64), rounded once. As PyTorch's bicubic without antialias; Keys,
// 1981.
Tensor interpolate_cubic(Tensor x, Shape size, bool align_corners = false, Here at = Here::current());
// x [batch, C, h, w] read at the places of `grid` [batch, H, W, 2], each (x, y) with -1 and 1 at the borders
// of the image, or with align_corners at the middles of its outer pixels: [batch, C, H, W], linear between
// the four nearest pixels. Places outside are 0, or with `border` the nearest of the border. In f32 (f64 for
// f64), rounded once. Gradients of x and of the grid. As PyTorch's bilinear grid_sample.
Tensor grid_sample(Tensor x, Tensor grid, bool border = false, bool align_corners = false,
                   Here at = Here::current());

}  // namespace lockstep
