// Images, [batch, channels, height, width], of floats.
#pragma once

#include "core/ops/apply.h"

namespace lockstep {

// [b, c r r, h, w] -> [b, c, h r, w r]: r x r channels become an r x r block of pixels, and back. Of any
// dtype. As PyTorch.
Tensor pixel_shuffle(Tensor x, int64_t r, Here at = Here::current());
Tensor pixel_unshuffle(Tensor x, int64_t r, Here at = Here::current());
// Resamples the last dims, as many as `size` has. nearest: element i reads floor(i in / out), in integers
// (PyTorch computes it in f32). Gradient: dy added at the elements read. As PyTorch.
Tensor interpolate_nearest(Tensor x, Shape size, Here at = Here::current());
// Linear between the two nearest pixels along each of these dims: bilinear for two. With align_corners the
// centres of the corner pixels are aligned, else the borders of the images. In f32 (f64 for f64), by a
// contraction with the weights along each dim; rounded once. As PyTorch without antialias.
Tensor interpolate_linear(Tensor x, Shape size, bool align_corners = false, Here at = Here::current());
// From the four nearest pixels along each of these dims, with Keys' cubic and a = -0.75; the border is
// repeated outside. In f32 (f64 for f64), rounded once. As PyTorch's bicubic without antialias; Keys, 1981.
Tensor interpolate_cubic(Tensor x, Shape size, bool align_corners = false, Here at = Here::current());
// x [batch, C, h, w] read at the positions of `grid` [batch, H, W, 2]: [batch, C, H, W], linear between the
// four nearest pixels. A position is (x, y) with -1 and 1 at the borders of the image, or with align_corners
// at the centres of its outer pixels. Pixels outside are 0, or with `border` the nearest border pixel. In f32
// (f64 for f64), rounded once. Gradients of x and of the grid. As PyTorch's bilinear grid_sample.
Tensor grid_sample(Tensor x, Tensor grid, bool border = false, bool align_corners = false,
                   Here at = Here::current());

}  // namespace lockstep
