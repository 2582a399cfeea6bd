// Formulas of convolution, windows and pooling: one multiplication or comparison at a time, over every place
// of every window.
#include <cmath>
#include <functional>

#include "compiler/reference/array.h"

namespace lockstep::compiler::reference {

namespace {
using List = std::vector<int64_t>;

// Visits every place of every window over spatial dims: f(window, place, element), as flat numbers within
// their own dims; element is -1 in the padding.
struct Sliding {
  List spatial, counts, sizes, stride, lo, dilation;
  int64_t elements() const { return numel(spatial); }
  int64_t windows() const { return numel(counts); }
  int64_t places() const { return numel(sizes); }
  void each(const std::function<void(int64_t window, int64_t place, int64_t element)>& f) const {
    for (int64_t w = 0; w < windows(); ++w)
      for (int64_t p = 0; p < places(); ++p) f(w, p, element(w, p));
  }

 private:
  int64_t element(int64_t window, int64_t place) const {
    int64_t at = 0, factor = 1;
    for (size_t d = spatial.size(); d-- > 0;) {
      const int64_t x = window % counts[d] * stride[d] + place % sizes[d] * dilation[d] - lo[d];
      if (x < 0 || x >= spatial[d]) return -1;
      at += x * factor;
      factor *= spatial[d], window /= counts[d], place /= sizes[d];
    }
    return at;
  }
};

List tail(const Shape& shape, size_t from) {
  return {shape.begin() + static_cast<std::ptrdiff_t>(from), shape.end()};
}
Sliding sliding(const Attrs& attrs, List spatial, List sizes) {
  Sliding s{std::move(spatial),    {}, std::move(sizes), attrs.list("stride"), attrs.list("lo"),
            attrs.list("dilation")};
  for (size_t d = 0; d < s.spatial.size(); ++d)
    s.counts.push_back((s.spatial[d] + s.lo[d] + attrs.list("hi")[d] - s.dilation[d] * (s.sizes[d] - 1) - 1) /
                           s.stride[d] +
                       1);
  return s;
}
Shape shape_with(int64_t a, int64_t b, const List& rest) {
  Shape shape{a, b};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

// One convolution: x [n, channels, spatial], w [outputs, channels / groups, sizes], y [n, outputs, counts].
struct Convolved {
  Sliding at;
  int64_t n, channels, outputs, groups;
  // f(x, w, y) with the flat numbers of the three elements of each product; none in the padding.
  void each(const std::function<void(size_t x, size_t w, size_t y)>& f) const {
    const int64_t per_in = channels / groups, per_out = outputs / groups;
    at.each([&](int64_t window, int64_t place, int64_t element) {
      if (element < 0) return;
      for (int64_t s = 0; s < n; ++s)
        for (int64_t o = 0; o < outputs; ++o)
          for (int64_t c = 0; c < per_in; ++c)
            f((s * channels + o / per_out * per_in + c) * at.elements() + element,
              (o * per_in + c) * at.places() + place, (s * outputs + o) * at.windows() + window);
    });
  }
};

std::vector<DenseArray> convolution(const Call& call) {
  const DenseArray &x = call.in[0], &w = call.in[1];
  Convolved all{sliding(call.attrs(), tail(x.shape, 2), tail(w.shape, 2)), x.dim(0), x.dim(1), w.dim(0),
                call.attrs().integer("groups")};
  DenseArray y = make(x.dtype, shape_with(x.dim(0), w.dim(0), all.at.counts));
  if (call.in.size() == 3)
    for (size_t i = 0; i < y.f.size(); ++i) y.f[i] = call.in[2].f[i / all.at.windows() % all.outputs];
  all.each([&](size_t i, size_t j, size_t k) { y.f[k] += x.f[i] * w.f[j]; });
  return {y};
}
std::vector<DenseArray> convolution_grad_input(const Call& call) {
  const DenseArray &dy = call.in[0], &w = call.in[1];
  const int64_t groups = call.attrs().integer("groups");
  Convolved all{sliding(call.attrs(), call.attrs().list("spatial"), tail(w.shape, 2)), dy.dim(0),
                w.dim(1) * groups, dy.dim(1), groups};
  DenseArray dx = make(dy.dtype, shape_with(dy.dim(0), all.channels, all.at.spatial));
  all.each([&](size_t i, size_t j, size_t k) { dx.f[i] += dy.f[k] * w.f[j]; });
  return {dx};
}
std::vector<DenseArray> convolution_grad_weight(const Call& call) {
  const DenseArray &x = call.in[0], &dy = call.in[1];
  const int64_t groups = call.attrs().integer("groups");
  Convolved all{sliding(call.attrs(), tail(x.shape, 2), call.attrs().list("spatial")), x.dim(0), x.dim(1),
                dy.dim(1), groups};
  DenseArray dw = make(x.dtype, shape_with(dy.dim(1), x.dim(1) / groups, all.at.sizes));
  all.each([&](size_t i, size_t j, size_t k) { dw.f[j] += x.f[i] * dy.f[k]; });
  return {dw};
}

// [lead..., spatial...] -> [lead..., counts..., sizes...] and back; attributes strides and dilations.
Sliding bare(const Attrs& attrs, List spatial, List sizes) {
  const List none(spatial.size(), 0);
  return sliding(
      {{"stride", attrs.list("strides")}, {"lo", none}, {"hi", none}, {"dilation", attrs.list("dilations")}},
      std::move(spatial), std::move(sizes));
}
std::vector<DenseArray> windows(const Call& call) {
  const DenseArray& x = call.in[0];
  const List& sizes = call.attrs().list("sizes");
  const size_t lead = x.shape.size() - sizes.size();
  const Sliding at = bare(call.attrs(), tail(x.shape, lead), sizes);
  Shape shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(lead));
  shape.insert(shape.end(), at.counts.begin(), at.counts.end());
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  DenseArray out = make(x.dtype, shape);
  const int64_t outer = x.size() / std::max<int64_t>(at.elements(), 1);
  for (int64_t row = 0; row < outer; ++row)
    at.each([&](int64_t window, int64_t place, int64_t element) {
      const size_t to = (row * at.windows() + window) * at.places() + place,
                   from = static_cast<size_t>(row * at.elements() + element);
      x.real() ? static_cast<void>(out.f[to] = x.f[from]) : static_cast<void>(out.i[to] = x.i[from]);
    });
  return {out};
}
std::vector<DenseArray> windows_grad(const Call& call) {
  const DenseArray& w = call.in[0];
  const List& spatial = call.attrs().list("spatial");
  const size_t lead = w.shape.size() - 2 * spatial.size();
  const Sliding at = bare(call.attrs(), spatial, tail(w.shape, lead + spatial.size()));
  Shape shape(w.shape.begin(), w.shape.begin() + static_cast<std::ptrdiff_t>(lead));
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  DenseArray out = make(w.dtype, shape);
  const int64_t outer = out.size() / std::max<int64_t>(at.elements(), 1);
  for (int64_t row = 0; row < outer; ++row)
    at.each([&](int64_t window, int64_t place, int64_t element) {
      out.f[row * at.elements() + element] += w.f[(row * at.windows() + window) * at.places() + place];
    });
  return {out};
}

Sliding pooled(const Call& call, const List& spatial) {
  return sliding(call.attrs(), spatial, call.attrs().list("sizes"));
}
std::vector<DenseArray> max_pool(const Call& call) {
  const DenseArray& x = call.in[0];
  const Sliding at = pooled(call, tail(x.shape, 2));
  DenseArray y = make(x.dtype, shape_with(x.dim(0), x.dim(1), at.counts)),
             place_of = make(DType::i32, y.shape);
  for (int64_t row = 0; row < x.dim(0) * x.dim(1); ++row)
    at.each([&](int64_t window, int64_t place, int64_t element) {
      const size_t to = row * at.windows() + window;
      if (place == 0) y.f[to] = -std::numeric_limits<double>::infinity();
      if (element < 0) return;
      const double value = x.f[row * at.elements() + element];
      if (std::isnan(y.f[to]) || !(value > y.f[to] || std::isnan(value))) return;
      y.f[to] = value;
      place_of.i[to] = place;
    });
  return {y, place_of};
}
std::vector<DenseArray> max_pool_grad(const Call& call) {
  const DenseArray &dy = call.in[0], &place_of = call.in[1];
  const Sliding at = pooled(call, call.attrs().list("spatial"));
  DenseArray dx = make(dy.dtype, shape_with(dy.dim(0), dy.dim(1), at.spatial));
  for (int64_t row = 0; row < dy.dim(0) * dy.dim(1); ++row)
    at.each([&](int64_t window, int64_t place, int64_t element) {
      const size_t from = row * at.windows() + window;
      if (element >= 0 && place_of.i[from] == place) dx.f[row * at.elements() + element] += dy.f[from];
    });
  return {dx};
}
std::vector<DenseArray> avg_pool(const Call& call) {
  const DenseArray& x = call.in[0];
  const Sliding at = pooled(call, tail(x.shape, 2));
  DenseArray y = make(x.dtype, shape_with(x.dim(0), x.dim(1), at.counts));
  std::vector<double> there(at.windows(), 0);
  at.each([&](int64_t window, int64_t, int64_t element) {
    if (element >= 0 || call.attrs().flag("count_padding")) ++there[window];
  });
  for (int64_t row = 0; row < x.dim(0) * x.dim(1); ++row)
    at.each([&](int64_t window, int64_t, int64_t element) {
      if (element < 0) return;
      y.f[row * at.windows() + window] += x.f[row * at.elements() + element] / there[window];
    });
  return {y};
}

const FormulaRow kConvolutionRows[] = {
    {"convolution", convolution},
    {"convolution_grad_input", convolution_grad_input},
    {"convolution_grad_weight", convolution_grad_weight},
    {"windows", windows},
    {"windows_grad", windows_grad},
    {"max_pool", max_pool},
    {"max_pool_grad", max_pool_grad},
    {"avg_pool", avg_pool},
};

}  // namespace

std::span<const FormulaRow> convolution_formulas() { return kConvolutionRows; }

}  // namespace lockstep::compiler::reference
