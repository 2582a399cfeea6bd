// Views: nodes with defaults, and compositions of several.
#include "core/functions/shape.h"

#include <algorithm>
#include <numeric>

#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

Tensor reshape(Tensor x, Shape shape, Here at) {
  need("reshape", {x}, at);
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1)
      known *= shape[i];
    else if (open < 0)
      open = static_cast<int64_t>(i);
    else
      refuse("reshape", {x}, at, str(x.text(), " to ", shape, ": only one size may be -1"));
  }
  if (open >= 0) {
    if (known == 0 || numel(x.shape()) % known != 0)
      refuse("reshape", {x}, at,
             str(x.text(), " to ", shape, ": ", numel(x.shape()), " elements do not divide by ", known));
    shape[open] = numel(x.shape()) / known;
  }
  return shape == x.shape() ? x : apply1(ops::reshape, {x}, {{"shape", shape}}, at);
}
Tensor flatten(Tensor x, int first, int last, Here at) {
  need("flatten", {x}, at);
  if (x.ndim() == 0) return reshape(x, {1}, at);
  const int64_t a = dim_of("flatten", x, first, at), b = dim_of("flatten", x, last, at);
  if (a > b) refuse("flatten", {x}, at, str("dims ", first, " to ", last, " of ", x.text(), ": none"));
  Shape shape = x.shape();
  int64_t size = 1;
  for (int64_t d = a; d <= b; ++d) size *= shape[d];
  shape.erase(shape.begin() + a, shape.begin() + b + 1);
  shape.insert(shape.begin() + a, size);
  return reshape(x, shape, at);
}
Tensor unflatten(Tensor x, int dim, Shape sizes, Here at) {
  need("unflatten", {x}, at);
  const int64_t d = dim_of("unflatten", x, dim, at);
  Shape shape = x.shape();
  int64_t known = 1, open = 0;
  for (int64_t size : sizes) size == -1 ? ++open : known *= size;
  if (open == 1 && known > 0 && shape[d] % known == 0) {
    std::replace(sizes.begin(), sizes.end(), int64_t{-1}, shape[d] / known);
    known = shape[d], open = 0;
  }
  if (open > 0 || known != shape[d])
    refuse("unflatten", {x}, at,
           str("dim ", d, " of ", x.text(), " has ", shape[d], " elements, not those of ", sizes));
  shape.erase(shape.begin() + d);
  shape.insert(shape.begin() + d, sizes.begin(), sizes.end());
  return reshape(x, shape, at);
}
Tensor squeeze(TensorAt x) {
  need("squeeze", {x.tensor}, x.at);
  Shape shape = x.tensor.shape();
  std::erase(shape, 1);
  return reshape(x.tensor, shape, x.at);
}
Tensor squeeze(Tensor x, int dim, Here at) {
  need("squeeze", {x}, at);
  const int64_t d = dim_of("squeeze", x, dim, at);
  Shape shape = x.shape();
  if (shape[d] == 1) shape.erase(shape.begin() + d);
  return reshape(x, shape, at);
}
Tensor unsqueeze(Tensor x, int dim, Here at) {
  need("unsqueeze", {x}, at);
  const int rank = x.ndim() + 1;
  if (dim < -rank || dim >= rank)
    refuse("unsqueeze", {x}, at,
           str("dim ", dim, " of the result of ", x.text(), ": it has ", rank, " dims"));
  Shape shape = x.shape();
  shape.insert(shape.begin() + (dim < 0 ? dim + rank : dim), 1);
  return reshape(x, shape, at);
}
Tensor permute(Tensor x, std::vector<int64_t> order, Here at) {
  need("permute", {x}, at);
  for (int64_t& dim : order) dim = dim_of("permute", x, dim, at);
  return order == all_dims(x) ? x : apply1(ops::permute, {x}, {{"order", order}}, at);
}
Tensor transpose(Tensor x, int a, int b, Here at) {
  need("transpose", {x}, at);
  std::vector<int64_t> order = all_dims(x);
  std::swap(order[dim_of("transpose", x, a, at)], order[dim_of("transpose", x, b, at)]);
  return permute(x, order, at);
}
Tensor movedim(Tensor x, int from, int to, Here at) {
  need("movedim", {x}, at);
  const int64_t a = dim_of("movedim", x, from, at), b = dim_of("movedim", x, to, at);
  std::vector<int64_t> order = all_dims(x);
  order.erase(order.begin() + a);
  order.insert(order.begin() + b, a);
  return permute(x, order, at);
}

Tensor broadcast_to(Tensor x, Shape shape, Here at) {
  need("broadcast", {x}, at);
  if (x.shape() == shape) return x;
  Shape common;
  if (!broadcast_shape(x.shape(), shape, common) || common != shape)
    refuse("broadcast", {x}, at,
           str(x.text(), " does not broadcast to ", shape,
               "; dims are matched from the last, and must be equal or 1"));
  const auto rank = static_cast<int64_t>(shape.size());
  return broadcast_dims(x, shape, counted(rank - x.ndim(), rank), at);
}
Tensor expand(Tensor x, Shape shape, Here at) {
  need("expand", {x}, at);
  const auto fresh = static_cast<int64_t>(shape.size()) - x.ndim();
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == -1) {
      if (static_cast<int64_t>(d) < fresh)
        refuse("expand", {x}, at, str(x.text(), " to ", shape, ": dim ", d, " is new, and -1 is no size"));
      shape[d] = x.size(static_cast<int>(static_cast<int64_t>(d) - fresh));
    }
  return broadcast_to(x, shape, at);
}
Tensor broadcast_dims(Tensor x, Shape shape, std::vector<int64_t> dims, Here at) {
  need("broadcast", {x}, at);
  return x.shape() == shape ? x : apply1(ops::broadcast, {x}, {{"shape", shape}, {"dims", dims}}, at);
}
Tensor repeat(Tensor x, std::vector<int64_t> times, Here at) {
  need("repeat", {x}, at);
  if (static_cast<int>(times.size()) < x.ndim())
    refuse("repeat", {x}, at, str("times ", times, " for ", x.text(), ": one number per dim, or more"));
  for (int64_t count : times)
    if (count < 0) refuse("repeat", {x}, at, str("times ", times, " has a negative number"));
  InFunction line(x, at);
  const size_t fresh = times.size() - static_cast<size_t>(x.ndim());
  Shape pairs, whole;  // [times, size] for each dim, then one dim of both
  std::vector<int64_t> places;
  for (size_t d = 0; d < times.size(); ++d) {
    const int64_t size = d < fresh ? 1 : x.shape()[d - fresh];
    pairs.push_back(times[d]);
    if (d >= fresh) places.push_back(static_cast<int64_t>(pairs.size()));
    if (d >= fresh) pairs.push_back(size);
    whole.push_back(times[d] * size);
  }
  return reshape(broadcast_dims(x, pairs, places), whole);
}
Tensor tile(Tensor x, std::vector<int64_t> times, Here at) {
  need("tile", {x}, at);
  while (static_cast<int>(times.size()) < x.ndim()) times.insert(times.begin(), 1);
  return repeat(x, times, at);
}
Tensor repeat_interleave(Tensor x, int64_t times, int dim, Here at) {
  need("repeat_interleave", {x}, at);
  const int64_t d = dim_of("repeat_interleave", x, dim, at);
  if (times < 0) refuse("repeat_interleave", {x}, at, str("times is ", times));
  InFunction line(x, at);
  Shape shape = x.shape(), pairs = shape;
  pairs.insert(pairs.begin() + d + 1, times);
  std::vector<int64_t> places = all_dims(x);
  for (int64_t& place : places) place += place > d;
  shape[d] *= times;
  return reshape(broadcast_dims(x, pairs, places), shape);
}
std::vector<Tensor> meshgrid(std::vector<Tensor> xs, Here at) {
  need("meshgrid", xs, at);
  Shape shape;
  for (const Tensor& x : xs) {
    if (x.ndim() != 1) refuse("meshgrid", {x}, at, str("an input is ", x.text(), ", needs 1 dim"));
    shape.push_back(x.size(0));
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < xs.size(); ++i)
    out.push_back(broadcast_dims(xs[i], shape, {static_cast<int64_t>(i)}, at));
  return out;
}

namespace {
Tensor slice_of(Tensor x, size_t d, int64_t start, int64_t limit, int64_t step, Here at) {
  if (start == 0 && limit == x.shape()[d] && step == 1) return x;
  std::vector<int64_t> starts(x.shape().size(), 0), limits = x.shape(), steps(x.shape().size(), 1);
  starts[d] = start;
  limits[d] = limit;
  steps[d] = step;
  return apply1(ops::slice, {x}, {{"start", starts}, {"limit", limits}, {"step", steps}}, at);
}
}  // namespace
Tensor slice(Tensor x, int dim, int64_t start, int64_t limit, int64_t step, Here at) {
  need("slice", {x}, at);
  const int64_t d = dim_of("slice", x, dim, at), size = x.shape()[d];
  if (step < 1) refuse("slice", {x}, at, str("step is ", step, ", needs 1 or more; flip turns a dim round"));
  auto inside = [&](int64_t bound) { return std::clamp<int64_t>(bound < 0 ? bound + size : bound, 0, size); };
  const int64_t from = inside(start);
  return slice_of(x, d, from, std::max(from, inside(limit)), step, at);
}
Tensor slice(Tensor x, int dim, int64_t start, int64_t limit, Here at) {
  need("slice", {x}, at);
  const int64_t d = dim_of("slice", x, dim, at), size = x.shape()[d];
  return slice_of(x, d, start < 0 ? start + size : start, limit < 0 ? limit + size : limit, 1, at);
}
Tensor select(Tensor x, int dim, int64_t index, Here at) {
  need("select", {x}, at);
  const int64_t d = dim_of("select", x, dim, at), size = x.shape()[d];
  if (index < -size || index >= size)
    refuse("select", {x}, at, str("index ", index, " of dim ", d, " of ", x.text(), ", which has ", size));
  const int64_t place = index < 0 ? index + size : index;
  Shape shape = x.shape();
  shape.erase(shape.begin() + d);
  return reshape(slice_of(x, d, place, place + 1, 1, at), shape, at);
}
std::vector<Tensor> split(Tensor x, int dim, std::vector<int64_t> sizes, Here at) {
  need("split", {x}, at);
  int64_t d = dim_of("split", x, dim, at), total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (total != x.shape()[d])
    refuse("split", {x}, at,
           str("sizes ", sizes, " add up to ", total, ", dim ", d, " of ", x.text(), " has ", x.shape()[d]));
  std::vector<Tensor> out;
  int64_t start = 0;
  for (int64_t size : sizes) {
    out.push_back(slice(x, static_cast<int>(d), start, start + size, at));
    start += size;
  }
  return out;
}
std::vector<Tensor> chunk(Tensor x, int64_t count, int dim, Here at) {
  need("chunk", {x}, at);
  const int64_t d = dim_of("chunk", x, dim, at), size = x.shape()[d];
  if (count < 1) refuse("chunk", {x}, at, str("count is ", count, ", needs 1 or more"));
  const int64_t each = std::max<int64_t>((size + count - 1) / count, 1);
  std::vector<int64_t> sizes;
  for (int64_t from = 0; from < size; from += each) sizes.push_back(std::min(each, size - from));
  return split(x, static_cast<int>(d), sizes, at);
}
std::vector<Tensor> unbind(Tensor x, int dim, Here at) {
  need("unbind", {x}, at);
  const int64_t d = dim_of("unbind", x, dim, at), size = x.shape()[d];
  std::vector<Tensor> out;
  for (int64_t i = 0; i < size; ++i) out.push_back(select(x, static_cast<int>(d), i, at));
  return out;
}
Tensor concat(std::vector<Tensor> xs, int dim, Here at) {
  if (xs.empty()) refuse("concat", {}, at, "takes 1 or more inputs, got 0");
  need("concat", xs, at);
  if (xs.size() == 1) return xs[0];
  return apply1(ops::concat, xs, {{"dim", dim_of("concat", xs[0], dim, at)}}, at);
}
Tensor stack(std::vector<Tensor> xs, int dim, Here at) {
  if (xs.empty()) refuse("stack", {}, at, "takes 1 or more inputs, got 0");
  need("stack", xs, at);
  for (size_t i = 1; i < xs.size(); ++i)
    if (xs[i].shape() != xs[0].shape())
      refuse("stack", xs, at,
             str("input 0 is ", xs[0].text(), ", input ", i, " is ", xs[i].text(), ": all shapes are equal"));
  const int place = dim < 0 ? dim + xs[0].ndim() + 1 : dim;
  for (Tensor& x : xs) x = unsqueeze(x, dim, at);
  return concat(xs, place, at);
}

Tensor pad(Tensor x, std::vector<int64_t> lo, std::vector<int64_t> hi, Number value, Here at) {
  return apply1(ops::pad, {x}, {{"lo", lo}, {"hi", hi}, {"value", held("pad", x, value, at)}}, at);
}
Tensor pad(Tensor x, std::vector<int64_t> lo, std::vector<int64_t> hi, PadMode mode, Here at) {
  need("pad", {x}, at);
  if (static_cast<int>(lo.size()) != x.ndim() || hi.size() != lo.size())
    refuse("pad", {x}, at, str("lo ", lo, ", hi ", hi, " for ", x.text(), ": one number per dim"));
  InFunction line(x, at);
  for (size_t d = 0; d < lo.size(); ++d) {
    if (lo[d] == 0 && hi[d] == 0) continue;
    const int64_t size = x.shape()[d], most = mode == PadMode::circular ? size : size - 1;
    if (lo[d] < 0 || hi[d] < 0)
      refuse("pad", {x}, at, str("lo ", lo, ", hi ", hi, ": padding is not negative; slice instead"));
    if (size == 0 || (mode != PadMode::replicate && std::max(lo[d], hi[d]) > most))
      refuse("pad", {x}, at,
             str("lo ", lo, ", hi ", hi, ": dim ", d, " of ", x.text(), " has ", size, " elements, for ",
                 most, " at most"));
    auto element = [&](int64_t i) { return slice_of(x, d, i, i + 1, 1, at); };
    auto edge = [&](int64_t i, int64_t times) {
      Shape shape = x.shape();
      shape[d] = times;
      return broadcast_to(element(i), shape);
    };
    std::vector<Tensor> parts;
    switch (mode) {
      case PadMode::reflect:
        for (int64_t i = lo[d]; i > 0; --i) parts.push_back(element(i));
        parts.push_back(x);
        for (int64_t i = 0; i < hi[d]; ++i) parts.push_back(element(size - 2 - i));
        break;
      case PadMode::replicate:
        if (lo[d] > 0) parts.push_back(edge(0, lo[d]));
        parts.push_back(x);
        if (hi[d] > 0) parts.push_back(edge(size - 1, hi[d]));
        break;
      case PadMode::circular:
        if (lo[d] > 0) parts.push_back(slice_of(x, d, size - lo[d], size, 1, at));
        parts.push_back(x);
        if (hi[d] > 0) parts.push_back(slice_of(x, d, 0, hi[d], 1, at));
    }
    x = concat(parts, static_cast<int>(d));
  }
  return x;
}
Tensor roll(Tensor x, int64_t shift, int dim, Here at) {
  need("roll", {x}, at);
  const int64_t d = dim_of("roll", x, dim, at), size = x.shape()[d];
  const int64_t by = size == 0 ? 0 : (shift % size + size) % size;
  if (by == 0) return x;
  return concat({slice_of(x, d, size - by, size, 1, at), slice_of(x, d, 0, size - by, 1, at)},
                static_cast<int>(d), at);
}

}  // namespace lockstep
