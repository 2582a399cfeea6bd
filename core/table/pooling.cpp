// Pooling rows: max_pool with the position of the first largest element, its gradient, and avg_pool. Small
// windows become one slice of the input per position, which fuses; large ones a reduction over windows.
#include "core/functions/spatial/pooling.h"

#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/functions/spatial/window.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

namespace {
using namespace rules;
using List = std::vector<int64_t>;

constexpr int64_t kUnrolled = 32;  // places of a window up to which each is a slice

List tail(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }
Shape pooled(const Shape& x, const List& counts) {
  Shape out{x[0], x[1]};
  out.insert(out.end(), counts.begin(), counts.end());
  return out;
}
void expect_channels(const InferContext& c, size_t i) {
  expect_float(c, i);
  if (c.in[i].shape.size() < 3 || c.in[i].shape.size() > 5)
    c.fail(str("input is ", in_text(c, i), ", needs 3 to 5 dims: [N, C, 1 to 3 spatial dims]"));
}
Window checked(const InferContext& c, size_t dims) {
  const List& sizes = c.attrs.list("sizes");
  if (sizes.size() != dims) c.fail(str("window ", sizes, " for ", dims, " spatial dims: one number per dim"));
  Window w = checked_window(c, sizes);
  for (size_t d = 0; d < dims; ++d)
    if (2 * w.lo[d] > w.sizes[d] || 2 * w.hi[d] > w.sizes[d])
      c.fail(str("padding ", w.lo, " and ", w.hi, " for a window of ", w.sizes,
                 ": at most half of the window; pad the input instead"));
  return w;
}
Window window_at(const Attrs& attrs) { return window_of(attrs, attrs.list("sizes")); }

Types infer_max_pool(const InferContext& c) {
  expect_count(c, 1);
  expect_channels(c, 0);
  const Shape& x = c.in[0].shape;
  Shape out = pooled(x, checked_counts(c, checked(c, x.size() - 2), tail(x)));
  return {{c.in[0].dtype, out}, {DType::i32, out}};
}
Types infer_max_pool_grad(const InferContext& c) {  // dy, places -> dx with spatial dims `spatial`
  expect_count(c, 2);
  expect_channels(c, 0);
  if (c.in[1] != TypedShape{DType::i32, c.in[0].shape})
    c.fail(str("places are ", in_text(c, 1), ", need ", shape_text(DType::i32, c.in[0].shape)));
  const Shape& dy = c.in[0].shape;
  const List& spatial = c.attrs.list("spatial");
  if (spatial.size() + 2 != dy.size())
    c.fail(str("dy is ", in_text(c, 0), ", spatial sizes are ", spatial, ": one per spatial dim"));
  List counts = checked_counts(c, checked(c, spatial.size()), spatial);
  if (counts != tail(dy))
    c.fail(str("dy is ", in_text(c, 0), ", an input of ", spatial, " has ", counts, " windows"));
  return {{c.in[0].dtype, pooled(dy, spatial)}};
}
Types infer_avg_pool(const InferContext& c) {
  expect_count(c, 1);
  expect_channels(c, 0);
  const Shape& x = c.in[0].shape;
  const Window w = checked(c, x.size() - 2);
  for (int64_t n : w.dilation)
    if (n != 1) c.fail(str("dilation ", w.dilation, ": windows of a mean are dense"));
  return {{c.in[0].dtype, pooled(x, checked_counts(c, w, tail(x)))}};
}
std::string split_channels(size_t in, size_t out, const InferContext& c) {
  const std::string one = "nc" + std::string(c.in[0].shape.size() - 2, '#');
  return join_rule(std::vector<std::string>(in, one), std::vector<std::string>(out, one));
}

// One tensor [N, C, o...] per place of the window, in row-major order of the places.
std::vector<Tensor> places(Tensor x, const Window& w, double outside) {
  const List spatial = tail(x.shape());
  List lo{0, 0}, hi{0, 0};
  lo.insert(lo.end(), w.lo.begin(), w.lo.end());
  hi.insert(hi.end(), w.hi.begin(), w.hi.end());
  if (w.pads()) x = pad(x, lo, hi, outside);
  std::vector<Tensor> out;
  for (int64_t k = 0; k < numel(w.sizes); ++k) {
    List start{0, 0}, limit{x.size(0), x.size(1)}, step{1, 1};
    const List strides = row_major_strides(w.sizes);
    for (size_t d = 0; d < w.dims(); ++d) {
      start.push_back(k / strides[d] % w.sizes[d] * w.dilation[d]);
      limit.push_back(start.back() + (w.count(d, spatial[d]) - 1) * w.stride[d] + 1);
      step.push_back(w.stride[d]);
    }
    out.push_back(apply1(ops::slice, {x}, {{"start", start}, {"limit", limit}, {"step", step}}));
  }
  return out;
}
// [N, C, o..., k...] with the places of a window in one dim.
Tensor flat_windows(Tensor x, const Window& w, double outside) {
  Tensor cut = windows_of(x, w, outside);
  Shape shape = cut.shape();
  shape.resize(shape.size() - w.dims());
  shape.push_back(numel(w.sizes));
  return reshape(cut, shape);
}

std::vector<Tensor> max_pool_expand(const ExpandContext& c) {
  const Window w = window_at(c.attrs);
  const double outside = -std::numeric_limits<double>::infinity();
  if (numel(w.sizes) > kUnrolled) {
    Tensor cut = flat_windows(c.in[0], w, outside);
    const int64_t last = cut.ndim() - 1;
    return {max(cut, {last}), apply1(ops::argmax, {cut}, {{"dim", last}})};
  }
  std::vector<Tensor> at = places(c.in[0], w, outside);
  Tensor most = at[0], place = full(most, most.shape(), 0, DType::i32);
  for (size_t k = 1; k < at.size(); ++k) {  // the first of equal ones stays; so does the first NaN
    Tensor higher = apply1(ops::or_, {less(most, at[k]), not_equal(at[k], at[k])});
    Tensor takes = apply1(ops::and_, {higher, equal(most, most)});
    most = where(takes, at[k], most);
    place = where(takes, full(most, most.shape(), static_cast<double>(k), DType::i32), place);
  }
  return {most, place};
}

// dy at the chosen position of its window, else 0: [N, C, o...] -> [N, C, o..., k...].
Tensor chosen(Tensor place, const Window& w, const std::function<Tensor(const Shape&)>& value) {
  Shape flat = place.shape();
  flat.push_back(numel(w.sizes));
  List dims(place.ndim());
  std::iota(dims.begin(), dims.end(), 0);
  Tensor here = equal(iota(place, flat, static_cast<int>(flat.size()) - 1, DType::i32),
                      broadcast_dims(place, flat, dims));
  Tensor x = value(flat);
  return where(here, x, full_like(x, 0));
}
std::vector<Tensor> max_pool_grad_expand(const ExpandContext& c) {
  const Window w = window_at(c.attrs);
  Tensor dy = wide(c.in[0]);
  Tensor sent = chosen(c.in[1], w, [&](const Shape& flat) {
    List dims(dy.ndim());
    std::iota(dims.begin(), dims.end(), 0);
    return broadcast_dims(dy, flat, dims);
  });
  Shape cut = dy.shape();
  cut.insert(cut.end(), w.sizes.begin(), w.sizes.end());
  return {convert(expanded_fold(reshape(sent, cut), w, c.attrs.list("spatial")), c.in[0].dtype())};
}
std::vector<Tensor> max_pool_vjp(const VjpContext& c) {
  Attrs attrs = c.attrs;
  attrs.set("spatial", tail(c.in[0].shape()));
  return {apply1(ops::max_pool_grad, {c.grad[0], c.out[1]}, attrs)};
}
// The elements of dx at each window's chosen position.
std::vector<Tensor> max_pool_grad_vjp(const VjpContext& c) {
  const Window w = window_at(c.attrs);
  Tensor taken = chosen(c.in[1], w, [&](const Shape&) { return flat_windows(c.grad[0], w, 0); });
  return {sum(taken, {taken.ndim() - 1}), {}};
}

// The divisor of each window: the number of elements that count, [N, C, o...].
Tensor counts(Tensor like, const Window& w, const List& spatial, bool padding) {
  if (padding || !w.pads()) return full_like(like, static_cast<double>(numel(w.sizes)));
  Tensor count;
  for (size_t d = 0; d < w.dims(); ++d) {
    Tensor first =
        iota(like, like.shape(), static_cast<int>(d) + 2, like.dtype()) * static_cast<double>(w.stride[d]) -
        static_cast<double>(w.lo[d]);
    Tensor last =
        minimum(first + static_cast<double>(w.sizes[d]), full_like(like, static_cast<double>(spatial[d])));
    Tensor here = last - maximum(first, full_like(like, 0));
    count = count.defined() ? count * here : here;
  }
  return count;
}
std::vector<Tensor> avg_pool_expand(const ExpandContext& c) {
  const Window w = window_at(c.attrs);
  Tensor x = wide(c.in[0]), total;
  if (numel(w.sizes) > kUnrolled) {
    Tensor cut = flat_windows(x, w, 0);
    total = sum(cut, {cut.ndim() - 1});
  } else {
    for (const Tensor& one : places(x, w, 0)) total = total.defined() ? total + one : one;
  }
  Tensor mean = total / counts(total, w, tail(x.shape()), c.attrs.flag("count_padding"));
  return {convert(mean, c.in[0].dtype())};
}
std::vector<Tensor> avg_pool_vjp(const VjpContext& c) {
  const Window w = window_at(c.attrs);
  Tensor dy = wide(c.grad[0]);
  const List spatial = tail(c.in[0].shape());
  Tensor share = dy / counts(dy, w, spatial, c.attrs.flag("count_padding"));
  Shape cut = dy.shape();
  List dims(cut.size());
  std::iota(dims.begin(), dims.end(), 0);
  cut.insert(cut.end(), w.sizes.begin(), w.sizes.end());
  return {convert(fold_windows(broadcast_dims(share, cut, dims), w, spatial), c.in[0].dtype())};
}

Attrs sliding(List sizes, List stride, List lo, List hi, List dilation) {
  Attrs out = attrs_of({sizes, std::move(stride), std::move(lo), std::move(hi), std::move(dilation)});
  out.set("sizes", std::move(sizes));
  return out;
}
struct Case {
  Shape x;
  Attrs attrs;
};
// Odd sizes, windows that overlap and that do not, a window of more places than are unrolled.
std::vector<Case> cases() {
  return {{{2, 3, 7}, sliding({3}, {2}, {1}, {1}, {1})},
          {{2, 2, 7, 6}, sliding({3, 2}, {2, 2}, {1, 0}, {1, 1}, {1, 1})},
          {{1, 3, 9, 8}, sliding({6, 7}, {3, 1}, {2, 1}, {0, 3}, {1, 1})},
          {{2, 1, 4, 5, 3}, sliding({2, 2, 3}, {2, 1, 1}, {0, 1, 1}, {0, 0, 0}, {1, 1, 1})}};
}
std::vector<Sample> samples(OpId op) {
  std::vector<Sample> out;
  std::vector<Case> all = cases();
  if (op != ops::avg_pool) all.push_back({{2, 2, 9}, sliding({3}, {1}, {1}, {0}, {2})});
  for (Case& one : all) {
    Types in{f32(one.x)};
    if (op == ops::avg_pool) one.attrs.set("count_padding", out.size() % 2 == 1);
    if (op == ops::max_pool_grad) {
      in = infer_max_pool({op, in, one.attrs, {}});
      one.attrs.set("spatial", tail(one.x));
    }
    out.push_back(floats(in, one.attrs));
    out.back().int_hi = numel(one.attrs.list("sizes"));
  }
  return out;
}
}  // namespace

std::vector<Op> pooling_rows() {
  const AttrField sizes{"sizes", AttrType::list};
  return {
      {.id = ops::max_pool,
       .kind = OpKind::composite,
       .attrs = window_attrs({sizes}),
       .infer = infer_max_pool,
       .split = [](const InferContext& c) { return split_channels(1, 2, c); },
       .vjp = max_pool_vjp,
       .expand = max_pool_expand,
       .samples = samples(ops::max_pool),
       .statistics = 1},
      {.id = ops::max_pool_grad,
       .kind = OpKind::composite,
       .attrs = window_attrs({sizes, {"spatial", AttrType::list}}),
       .infer = infer_max_pool_grad,
       .split = [](const InferContext& c) { return split_channels(2, 1, c); },
       .vjp = max_pool_grad_vjp,
       .expand = max_pool_grad_expand,
       .linear = {0},
       .samples = samples(ops::max_pool_grad),
       .library = Library::pooling},
      {.id = ops::avg_pool,
       .kind = OpKind::composite,
       .attrs = window_attrs({sizes, {"count_padding", AttrType::flag, true}}),
       .infer = infer_avg_pool,
       .split = [](const InferContext& c) { return split_channels(1, 1, c); },
       .vjp = avg_pool_vjp,
       .expand = avg_pool_expand,
       .linear = {0},
       .samples = samples(ops::avg_pool)},
  };
}

}  // namespace lockstep
