// Image functions: views, rows by index, and contractions with interpolation weights.
#include "core/functions/image.h"

#include <algorithm>

#include "core/functions/contract.h"
#include "core/functions/creation.h"
#include "core/functions/gradients.h"
#include "core/functions/index.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
void need_image(std::string_view name, const Tensor& x, int64_t r, Here at) {
  need(name, {x}, at);
  if (x.ndim() != 4)
    refuse(name, {x}, at, str("input is ", x.text(), ", needs [batch, channels, height, width]"));
  if (r < 1) refuse(name, {x}, at, str("the factor is ", r, ", needs 1 or more"));
}
void need_sizes(std::string_view name, const Tensor& x, const Shape& size, Here at) {
  need_floats(name, {x}, at);
  if (size.empty() || static_cast<int>(size.size()) > x.ndim() ||
      std::any_of(size.begin(), size.end(), [](int64_t n) { return n < 1; }))
    refuse(name, {x}, at, str("size ", size, " for ", x.text(), ": 1 or more for each of the last dims"));
}
// Keys' cubic with a = -0.75, for a distance of 0 to 2.
Tensor cubic(Tensor d) {
  constexpr double kA = -0.75;
  Tensor near = ((kA + 2) * d - (kA + 3)) * d * d + 1.0, far = ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA;
  return where(d <= 1, near, far);
}
}  // namespace

Tensor pixel_shuffle(Tensor x, int64_t r, Here at) {
  need_image("pixel_shuffle", x, r, at);
  const int64_t b = x.size(0), c = x.size(1) / (r * r), h = x.size(2), w = x.size(3);
  if (c * r * r != x.size(1))
    refuse("pixel_shuffle", {x}, at, str(x.size(1), " channels of ", x.text(), " do not divide by ", r * r));
  InFunction line(x, at);
  return reshape(permute(reshape(x, {b, c, r, r, h, w}), {0, 1, 4, 2, 5, 3}), {b, c, h * r, w * r});
}
Tensor pixel_unshuffle(Tensor x, int64_t r, Here at) {
  need_image("pixel_unshuffle", x, r, at);
  const int64_t b = x.size(0), c = x.size(1), h = x.size(2) / r, w = x.size(3) / r;
  if (h * r != x.size(2) || w * r != x.size(3))
    refuse("pixel_unshuffle", {x}, at, str("height or width of ", x.text(), " does not divide by ", r));
  InFunction line(x, at);
  return reshape(permute(reshape(x, {b, c, h, r, w, r}), {0, 1, 3, 5, 2, 4}), {b, c * r * r, h, w});
}

Tensor interpolate_nearest(Tensor x, Shape size, Here at) {
  need_sizes("interpolate_nearest", x, size, at);
  InFunction line(x, at);
  for (size_t i = 0; i < size.size(); ++i) {
    const int d = x.ndim() - static_cast<int>(size.size() - i);
    const int64_t in = x.size(d), out = size[i];
    if (out % in == 0) {
      x = repeat_interleave(x, out / in, d);
    } else if (in % out == 0) {
      x = slice(x, d, 0, in, in / out);
    } else {
      Tensor place = iota(x, {out}, 0, DType::i64) * static_cast<double>(in) / static_cast<double>(out);
      x = index_select(x, d, place);
    }
  }
  return x;
}
Tensor interpolate_linear(Tensor x, Shape size, bool align_corners, Here at) {
  need_sizes("interpolate_linear", x, size, at);
  return rounded_once("interpolate_linear", x, at, [&](Tensor v) {
    for (size_t i = 0; i < size.size(); ++i) {
      const int d = v.ndim() - static_cast<int>(size.size() - i);
      const int64_t in = v.size(d), out = size[i];
      if (in == out) continue;
      const auto n = static_cast<double>(in), m = static_cast<double>(out);
      Tensor index = iota(v, {out, in}, 0, DType::f64);
      Tensor from = align_corners ? index * (out > 1 ? (n - 1) / (m - 1) : 0) : (index + 0.5) * (n / m) - 0.5;
      Tensor away = abs(clamp(from, 0, n - 1) - iota(v, {out, in}, 1, DType::f64));
      Tensor weights = convert(clamp(1.0 - away, 0, 1), v.dtype());
      v = movedim(tensordot(v, weights, {d}, {1}), -1, d);
    }
    return v;
  });
}
Tensor interpolate_cubic(Tensor x, Shape size, bool align_corners, Here at) {
  need_sizes("interpolate_cubic", x, size, at);
  return rounded_once("interpolate_cubic", x, at, [&](Tensor v) {
    for (size_t i = 0; i < size.size(); ++i) {
      const int d = v.ndim() - static_cast<int>(size.size() - i);
      const int64_t in = v.size(d), out = size[i];
      if (in == out) continue;
      const auto n = static_cast<double>(in), m = static_cast<double>(out);
      Tensor index = iota(v, {out, in}, 0, DType::f64), place = iota(v, {out, in}, 1, DType::f64);
      Tensor from = align_corners ? index * (out > 1 ? (n - 1) / (m - 1) : 0) : (index + 0.5) * (n / m) - 0.5;
      Tensor first = floor(from), weights = full_like(from, 0);
      for (int tap = -1; tap <= 2; ++tap) {
        Tensor at_tap = first + static_cast<double>(tap);
        weights =
            weights + where(clamp(at_tap, 0, n - 1) == place, cubic(abs(from - at_tap)), full_like(from, 0));
      }
      v = movedim(tensordot(v, convert(weights, v.dtype()), {d}, {1}), -1, d);
    }
    return v;
  });
}

Tensor grid_sample(Tensor x, Tensor grid, bool border, bool align_corners, Here at) {
  need_floats("grid_sample", {x, grid}, at);
  if (x.ndim() != 4 || grid.ndim() != 4 || grid.size(0) != x.size(0) || grid.size(3) != 2)
    refuse(
        "grid_sample", {x, grid}, at,
        str("x is ", x.text(), ", the grid ", grid.text(), ", need [batch, C, h, w] and [batch, H, W, 2]"));
  const int64_t batch = x.size(0), channels = x.size(1), h = x.size(2), w = x.size(3);
  const Shape places{batch, grid.size(1), grid.size(2)};
  return rounded_once("grid_sample", x, at, [&](Tensor v) {
    Tensor rows = reshape(permute(v, {0, 2, 3, 1}), {batch * h * w, channels});
    Tensor wide = convert(grid, v.dtype());
    // The position in pixels along one side of `size` pixels.
    auto along = [&](int64_t axis, int64_t size) {
      Tensor g = select(wide, 3, axis);
      const auto n = static_cast<double>(size);
      Tensor p = align_corners ? (g + 1.0) * ((n - 1) / 2) : (g + 1.0) * (n / 2) - 0.5;
      return border ? clamp(p, 0, n - 1) : p;
    };
    Tensor px = along(0, w), py = along(1, h);
    Tensor x0 = stop_gradient(floor(px)), y0 = stop_gradient(floor(py));
    Tensor sample = iota(v, places, 0, DType::i32) * static_cast<double>(h * w), sum;
    for (int corner = 0; corner < 4; ++corner) {
      Tensor cx = x0 + static_cast<double>(corner & 1), cy = y0 + static_cast<double>(corner >> 1);
      Tensor share = (1.0 - abs(px - cx)) * (1.0 - abs(py - cy));
      auto inside = [](Tensor c, int64_t size) { return c >= 0 && c <= static_cast<double>(size - 1); };
      share = where(inside(cx, w) && inside(cy, h), share, full_like(share, 0));
      auto pixel = [](Tensor c, int64_t size) {
        return convert(clamp(c, 0, static_cast<double>(size - 1)), DType::i32);
      };
      Tensor id = sample + pixel(cy, h) * static_cast<double>(w) + pixel(cx, w);
      Tensor part = take(rows, id);
      part = part * broadcast_dims(share, part.shape(), {0, 1, 2});
      sum = sum.defined() ? sum + part : part;
    }
    return permute(sum, {0, 3, 1, 2});
  });
}

}  // namespace lockstep
