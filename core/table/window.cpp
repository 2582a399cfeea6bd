// Windows: checks, and the op rows `windows` (a view) and `windows_grad` (its transpose, which adds overlaps
// in ascending order of the position in the window).
#include "core/functions/spatial/window.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

using namespace rules;
using List = std::vector<int64_t>;

bool Window::pads() const {
  return std::any_of(lo.begin(), lo.end(), [](int64_t n) { return n != 0; }) ||
         std::any_of(hi.begin(), hi.end(), [](int64_t n) { return n != 0; });
}

Window window_of(const Attrs& attrs, List sizes) {
  return {std::move(sizes), attrs.list("stride"), attrs.list("lo"), attrs.list("hi"), attrs.list("dilation")};
}
Attrs attrs_of(const Window& w) {
  return {{"stride", w.stride}, {"lo", w.lo}, {"hi", w.hi}, {"dilation", w.dilation}};
}
std::vector<AttrField> window_attrs(std::vector<AttrField> more) {
  std::vector<AttrField> out(std::begin(kWindowAttrs), std::end(kWindowAttrs));
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Window checked_window(const InferContext& c, List sizes) {
  Window w = window_of(c.attrs, std::move(sizes));
  const auto check = [&](const List& list, std::string_view role, int64_t least) {
    if (list.size() != w.dims())
      c.fail(str(role, " ", list, " for ", w.dims(), " spatial dims: one number per dim"));
    for (int64_t n : list)
      if (n < least) c.fail(str(role, " ", list, ": ", n, " is less than ", least));
  };
  check(w.sizes, "window", 1);
  check(w.stride, "stride", 1);
  check(w.lo, "padding", 0);
  check(w.hi, "padding", 0);
  check(w.dilation, "dilation", 1);
  return w;
}

List checked_counts(const InferContext& c, const Window& w, const List& spatial) {
  List out;
  for (size_t d = 0; d < w.dims(); ++d) {
    out.push_back(w.count(d, spatial[d]));
    if (out.back() < 1)
      c.fail(str("a window spans ", w.span(d), " elements along spatial dim ", d, ", the input has ",
                 spatial[d], w.lo[d] + w.hi[d] ? str(" and ", w.lo[d] + w.hi[d], " of padding") : "",
                 "; use a smaller window, or more padding"));
  }
  return out;
}

List per_dim(std::string_view op, const List& list, size_t dims, std::string_view role,
             const SourceLine& at) {
  if (list.size() == dims) return list;
  if (list.size() == 1) return List(dims, list[0]);
  throw UserError(str("[", op, "] ", at.text(), ": ", role, " ", list, " for ", dims,
                      " spatial dims: give one number for all, or one per dim"));
}

namespace {
Window bare(const Attrs& attrs, List sizes) {
  const List none(sizes.size(), 0);
  return {std::move(sizes), attrs.list("strides"), none, none, attrs.list("dilations")};
}
void check_bare(const InferContext& c, const Window& w, size_t rank) {
  if (w.stride.size() != w.dims() || w.dilation.size() != w.dims())
    c.fail(
        str("sizes ", w.sizes, ", strides ", w.stride, ", dilations ", w.dilation, ": one number per dim"));
  if (w.dims() > rank)
    c.fail(str("windows of ", w.dims(), " dims over ", in_text(c, 0), ", which has ", c.in[0].shape.size()));
  for (const List& list : {w.sizes, w.stride, w.dilation})
    for (int64_t n : list)
      if (n < 1)
        c.fail(str("sizes ", w.sizes, ", strides ", w.stride, ", dilations ", w.dilation, ": ", n,
                   " is less than 1"));
}

Types infer_windows(const InferContext& c) {
  expect_count(c, 1);
  Window w = bare(c.attrs, c.attrs.list("sizes"));
  const Shape& from = c.in[0].shape;
  check_bare(c, w, from.size());
  const auto lead = static_cast<std::ptrdiff_t>(from.size() - w.dims());
  Shape out(from.begin(), from.begin() + lead);
  for (int64_t count : checked_counts(c, w, {from.begin() + lead, from.end()})) out.push_back(count);
  out.insert(out.end(), w.sizes.begin(), w.sizes.end());
  return {{c.in[0].dtype, out}};
}
std::string leading_letters(size_t lead, size_t in, size_t out) {
  std::string letters;
  Letters next;
  for (size_t i = 0; i < lead; ++i) letters += next.next();
  return join_rule({letters + std::string(in, '#')}, {letters + std::string(out, '#')});
}
std::string split_windows(const InferContext& c) {
  const size_t dims = c.attrs.list("sizes").size();
  return leading_letters(c.in[0].shape.size() - dims, dims, 2 * dims);
}
std::vector<Tensor> windows_vjp(const VjpContext& c) {
  const Shape from = c.in[0].shape();
  const auto lead = static_cast<std::ptrdiff_t>(from.size() - c.attrs.list("sizes").size());
  return {apply1(ops::windows_grad, {c.grad[0]},
                 {{"spatial", List(from.begin() + lead, from.end())},
                  {"strides", c.attrs.list("strides")},
                  {"dilations", c.attrs.list("dilations")}})};
}

// in [lead..., o..., k...]
Types infer_windows_grad(const InferContext& c) {
  expect_count(c, 1);
  expect_float(c, 0);
  const List& spatial = c.attrs.list("spatial");
  const Shape& from = c.in[0].shape;
  const size_t dims = spatial.size();
  if (from.size() < 2 * dims)
    c.fail(str("input is ", in_text(c, 0), ", needs [..., windows, sizes] of ", dims, " dims each"));
  const auto lead = static_cast<std::ptrdiff_t>(from.size() - 2 * dims);
  Window w = bare(c.attrs, List(from.end() - static_cast<std::ptrdiff_t>(dims), from.end()));
  check_bare(c, w, from.size());
  List counts = checked_counts(c, w, spatial);
  if (!std::equal(counts.begin(), counts.end(), from.begin() + lead))
    c.fail(str("input is ", in_text(c, 0), ", spatial dims ", spatial, " have ", counts, " windows"));
  Shape out(from.begin(), from.begin() + lead);
  out.insert(out.end(), spatial.begin(), spatial.end());
  return {{c.in[0].dtype, out}};
}
std::string split_windows_grad(const InferContext& c) {
  const size_t dims = c.attrs.list("spatial").size();
  return leading_letters(c.in[0].shape.size() - 2 * dims, 2 * dims, dims);
}
std::vector<Tensor> windows_grad_vjp(const VjpContext& c) {
  const Shape from = c.in[0].shape();
  const auto dims = static_cast<std::ptrdiff_t>(c.attrs.list("spatial").size());
  return {apply1(ops::windows, {c.grad[0]},
                 {{"sizes", List(from.end() - dims, from.end())},
                  {"strides", c.attrs.list("strides")},
                  {"dilations", c.attrs.list("dilations")}})};
}

// Dim `d` with zeros between its elements: element i goes to i * by. [.., n, ..] -> [.., n * by, ..]
Tensor spread(Tensor x, int64_t d, int64_t by) {
  if (by == 1) return x;
  Shape pair = x.shape(), flat = pair;
  pair.insert(pair.begin() + d + 1, 1);
  List none(pair.size(), 0), after = none;
  after[d + 1] = by - 1;
  flat[d] *= by;
  return reshape(pad(reshape(x, pair), none, after, 0), flat);
}
// Dim `d` cut or filled with zeros to `size`, after `lo` zeros.
Tensor placed(Tensor x, int64_t d, int64_t lo, int64_t size) {
  if (x.size(static_cast<int>(d)) + lo > size) x = slice(x, static_cast<int>(d), 0, size - lo);
  List before(x.ndim(), 0), after = before;
  before[d] = lo;
  after[d] = size - lo - x.size(static_cast<int>(d));
  return before[d] || after[d] ? pad(x, before, after, 0) : x;
}
// [.., o, .., k] -> [.., size, ..]: dim d counts the windows, the last dim the positions in a window.
Tensor fold_dim(Tensor x, int64_t d, int64_t stride, int64_t dilation, int64_t size) {
  const int64_t last = x.ndim() - 1, places = x.size(static_cast<int>(last));
  Shape rest = x.shape();
  rest.pop_back();
  if (dilation == 1 && places <= stride) {  // nothing overlaps
    List order(x.ndim());
    std::iota(order.begin(), order.end(), 0);
    order.pop_back();
    order.insert(order.begin() + d + 1, last);
    Tensor y = permute(x, order);
    List none(x.ndim(), 0), after = none;
    after[d + 1] = stride - places;
    if (stride > places) y = pad(y, none, after, 0);
    rest[d] *= stride;
    return placed(reshape(y, rest), d, 0, size);
  }
  Tensor total;
  for (int64_t k = 0; k < places; ++k) {
    Tensor part = reshape(slice(x, static_cast<int>(last), k, k + 1), rest);
    part = placed(spread(part, d, stride), d, k * dilation, size);
    total = total.defined() ? total + part : part;
  }
  return total;
}
// In f32, f64 for f64; rounded once.
Tensor folded(Tensor x, const List& spatial, const List& strides, const List& dilations) {
  const auto dims = static_cast<int64_t>(spatial.size());
  Tensor y = wide(x);
  const int64_t lead = y.ndim() - 2 * dims;
  for (int64_t d = dims; d-- > 0;) y = fold_dim(y, lead + d, strides[d], dilations[d], spatial[d]);
  return convert(y, x.dtype());
}
std::vector<Tensor> windows_grad_expand(const ExpandContext& c) {
  return {folded(c.in[0], c.attrs.list("spatial"), c.attrs.list("strides"), c.attrs.list("dilations"))};
}
List padded(const Window& w, List spatial) {
  for (size_t d = 0; d < w.dims(); ++d) spatial[d] += w.lo[d] + w.hi[d];
  return spatial;
}
Tensor without_padding(Tensor x, const Window& w, const List& spatial) {
  const auto lead = static_cast<int>(x.ndim() - static_cast<int>(w.dims()));
  for (size_t d = 0; d < w.dims(); ++d)
    if (w.lo[d] || w.hi[d]) x = slice(x, lead + static_cast<int>(d), w.lo[d], w.lo[d] + spatial[d]);
  return x;
}

Attrs sliding(const char* first, List sizes, List strides, List dilations) {
  return {{first, std::move(sizes)}, {"strides", std::move(strides)}, {"dilations", std::move(dilations)}};
}
}  // namespace

std::vector<Op> window_rows() {
  return {{.id = ops::windows,
           .kind = OpKind::view,
           .attrs = {{"sizes", AttrType::list}, {"strides", AttrType::list}, {"dilations", AttrType::list}},
           .infer = infer_windows,
           .split = split_windows,
           .vjp = windows_vjp,
           .linear = {0},
           .samples = {floats({f32({2, 9})}, sliding("sizes", {3}, {2}, {1})),
                       floats({f32({2, 3, 7, 5})}, sliding("sizes", {3, 2}, {1, 2}, {2, 1})),
                       floats({f32({4, 4})}, sliding("sizes", {1, 4}, {1, 1}, {1, 1})),
                       integers({i32({2, 4, 5, 3})}, sliding("sizes", {2, 2, 3}, {2, 1, 1}, {1, 1, 1}))}},
          {.id = ops::windows_grad,
           .kind = OpKind::composite,
           .attrs = {{"spatial", AttrType::list}, {"strides", AttrType::list}, {"dilations", AttrType::list}},
           .infer = infer_windows_grad,
           .split = split_windows_grad,
           .vjp = windows_grad_vjp,
           .expand = windows_grad_expand,
           .linear = {0},
           .samples = {
               floats({f32({2, 4, 3})}, sliding("spatial", {9}, {2}, {1})),
               floats({f32({2, 3, 3, 2, 3, 2})}, sliding("spatial", {7, 5}, {1, 2}, {2, 1})),
               floats({f32({3, 3, 2})}, sliding("spatial", {10}, {3}, {1})),
               floats({f32({2, 2, 4, 2, 2, 2, 3})}, sliding("spatial", {4, 5, 4}, {2, 1, 1}, {1, 1, 1}))}}};
}

Tensor windows_of(Tensor x, const Window& w, double value) {
  const size_t lead = x.shape().size() - w.dims();
  if (w.pads()) {
    List lo(lead, 0), hi(lead, 0);
    lo.insert(lo.end(), w.lo.begin(), w.lo.end());
    hi.insert(hi.end(), w.hi.begin(), w.hi.end());
    x = pad(x, lo, hi, value);
  }
  return apply1(ops::windows, {x}, sliding("sizes", w.sizes, w.stride, w.dilation));
}
Tensor fold_windows(Tensor x, const Window& w, const List& spatial) {
  Tensor out = apply1(ops::windows_grad, {x}, sliding("spatial", padded(w, spatial), w.stride, w.dilation));
  return without_padding(out, w, spatial);
}
Tensor expanded_fold(Tensor x, const Window& w, const List& spatial) {
  return without_padding(folded(x, padded(w, spatial), w.stride, w.dilation), w, spatial);
}

}  // namespace lockstep
