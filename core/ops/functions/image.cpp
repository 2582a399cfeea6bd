// Places of images: views, rows by index, and contractions with weights of a resolution.
#include "core/ops/functions/image.h"

#include <algorithm>

#include "core/ops/functions/checks.h"
#include "core/ops/functions/contract.h"
#include "core/ops/functions/creation.h"
#include "core/ops/functions/index.h"
#include "core/ops/functions/operators.h"
#include "core/ops/functions/pointwise.h"
#include "core/ops/functions/shape.h"

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

}  // namespace lockstep
