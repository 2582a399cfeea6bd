// Convolution rows: x [N, C, s...] with weight [O, C / groups, k...], and the gradients of both. Each is
// linear in its two tensors, so the three are each other's gradients. Accumulation is f32, f64 for f64.
#include "core/functions/spatial/convolution.h"

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/functions/spatial/window.h"
#include "core/ops/checks.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

namespace {
using namespace rules;
using List = std::vector<int64_t>;

List tail(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }
Shape joined(int64_t a, int64_t b, const List& rest) {
  Shape out{a, b};
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

void expect_channels(const InferContext& c, size_t i, std::string_view role) {
  expect_float(c, i);
  if (c.in[i].shape.size() < 3 || c.in[i].shape.size() > 5)
    c.fail(str(role, " is ", in_text(c, i), ", needs 3 to 5 dims: ", i == 0 ? "[N, C, " : "[O, C / groups, ",
               "1 to 3 spatial dims]"));
}
void expect_same(const InferContext& c, size_t i, std::string_view first, std::string_view role) {
  if (c.in[i].dtype != c.in[0].dtype)
    c.fail(
        str("dtypes differ: ", first, " ", in_text(c, 0), ", ", role, " ", in_text(c, i), "; convert one?"));
}
int64_t checked_groups(const InferContext& c, int64_t channels, std::string_view role) {
  const int64_t groups = c.attrs.integer("groups");
  if (groups < 1 || channels % groups != 0)
    c.fail(str("groups are ", groups, ", ", role, " has ", channels, " channels: groups divide them"));
  return groups;
}

Types infer_convolution(const InferContext& c) {
  expect_count(c, 2, 3);
  expect_channels(c, 0, "input");
  const Shape &x = c.in[0].shape, &w = c.in[1].shape;
  if (w.size() != x.size())
    c.fail(str("input is ", in_text(c, 0), ", weight is ", in_text(c, 1),
               ": both have as many spatial dims; the weight is [O, C / groups, k...]"));
  expect_same(c, 1, "input", "weight");
  const int64_t groups = checked_groups(c, x[1], "the input");
  checked_groups(c, w[0], "the output");
  if (w[1] * groups != x[1])
    c.fail(str("input is ", in_text(c, 0), ", weight is ", in_text(c, 1), ": the input has ", x[1],
               " channels, the weight reads ", w[1], groups > 1 ? str(" in each of ", groups, " groups") : "",
               "; the weight is [O, C / groups, k...]"));
  if (c.in.size() == 3) {
    expect_same(c, 2, "input", "bias");
    if (c.in[2].shape != Shape{w[0]})
      c.fail(str("bias is ", in_text(c, 2), ", needs [", w[0], "], the channels of weight ", in_text(c, 1)));
  }
  List counts = checked_counts(c, checked_window(c, tail(w)), tail(x));
  return {{c.in[0].dtype, joined(x[0], w[0], counts)}};
}

// dy, weight -> the gradient of an input with spatial dims `spatial`.
Types infer_grad_input(const InferContext& c) {
  expect_count(c, 2);
  expect_channels(c, 0, "input");
  const Shape &dy = c.in[0].shape, &w = c.in[1].shape;
  if (w.size() != dy.size())
    c.fail(
        str("input is ", in_text(c, 0), ", weight is ", in_text(c, 1), ": both have as many spatial dims"));
  expect_same(c, 1, "input", "weight");
  const int64_t groups = checked_groups(c, dy[1], "the input");
  if (w[0] != dy[1])
    c.fail(str("input is ", in_text(c, 0), ", weight is ", in_text(c, 1), ": the input has ", dy[1],
               " channels, the weight has ", w[0], " rows; a transposed weight is [I, O / groups, k...]"));
  const List& spatial = c.attrs.list("spatial");
  if (spatial.size() + 2 != dy.size())
    c.fail(str("input is ", in_text(c, 0), ", spatial sizes are ", spatial, ": one per spatial dim"));
  List counts = checked_counts(c, checked_window(c, tail(w)), spatial);
  if (counts != tail(dy))
    c.fail(str("input is ", in_text(c, 0), ", an output of ", spatial, " has ", counts,
               " windows: spatial dims differ"));
  return {{c.in[0].dtype, joined(dy[0], w[1] * groups, spatial)}};
}
// x, dy -> the gradient of a weight with spatial dims `spatial`.
Types infer_grad_weight(const InferContext& c) {
  expect_count(c, 2);
  expect_channels(c, 0, "input");
  const Shape &x = c.in[0].shape, &dy = c.in[1].shape;
  expect_same(c, 1, "input", "dy");
  if (dy.size() != x.size() || dy[0] != x[0])
    c.fail(
        str("input is ", in_text(c, 0), ", dy is ", in_text(c, 1), ": samples and spatial dims are as many"));
  const int64_t groups = checked_groups(c, x[1], "the input");
  checked_groups(c, dy[1], "dy");
  const List& spatial = c.attrs.list("spatial");
  if (spatial.size() + 2 != x.size())
    c.fail(str("input is ", in_text(c, 0), ", spatial sizes are ", spatial, ": one per spatial dim"));
  List counts = checked_counts(c, checked_window(c, spatial), tail(x));
  if (counts != tail(dy))
    c.fail(str("dy is ", in_text(c, 1), ", the input has ", counts, " windows: spatial dims differ"));
  return {{c.in[0].dtype, joined(dy[1], x[1] / groups, spatial)}};
}

// Samples may be sharded; so may channels, if every output channel reads every input channel.
std::string split(const InferContext& c, std::string_view whole, std::string_view grouped) {
  const std::string spatial(c.in[0].shape.size() - 2, '#');
  std::string out;
  for (char letter : c.attrs.integer("groups") == 1 ? whole : grouped)
    letter == '#' ? out += spatial : out += letter;
  return out;
}
std::string split_convolution(const InferContext& c) {
  // With a bias channels may not be sharded: every term of the partial sum would add the bias.
  return c.in.size() == 3 ? split(c, "nC#,oC#,o->no#", "nC#,OD#,O->nO#")
                          : split(c, "nc#,oc#->no#", "nC#,OD#->nO#");
}
std::string split_grad_input(const InferContext& c) { return split(c, "no#,oc#->nc#", "nO#,OD#->nC#"); }
std::string split_grad_weight(const InferContext& c) { return split(c, "nc#,no#->oc#", "nC#,nO#->OD#"); }

Attrs without_spatial(const Attrs& attrs) {
  Attrs out = attrs_of(window_of(attrs, {}));
  out.set("groups", attrs.integer("groups"));
  return out;
}
Attrs with_spatial(const Attrs& attrs, const Shape& of) {
  Attrs out = without_spatial(attrs);
  out.set("spatial", tail(of));
  return out;
}
std::vector<Tensor> convolution_vjp(const VjpContext& c) {
  Tensor x = c.in[0], w = c.in[1], dy = c.grad[0];
  std::vector<Tensor> out(c.in.size());
  if (c.wants[0]) out[0] = apply1(ops::convolution_grad_input, {dy, w}, with_spatial(c.attrs, x.shape()));
  if (c.wants[1]) out[1] = apply1(ops::convolution_grad_weight, {x, dy}, with_spatial(c.attrs, w.shape()));
  if (c.in.size() == 3 && c.wants[2]) {
    List dims = functions::counted(2, dy.ndim());
    dims.insert(dims.begin(), 0);
    out[2] = convert(sum(wide(dy), dims), dy.dtype());
  }
  return out;
}
std::vector<Tensor> grad_input_vjp(const VjpContext& c) {
  Tensor dy = c.in[0], w = c.in[1], dx = c.grad[0];
  std::vector<Tensor> out(2);
  if (c.wants[0]) out[0] = apply1(ops::convolution, {dx, w}, without_spatial(c.attrs));
  if (c.wants[1]) out[1] = apply1(ops::convolution_grad_weight, {dx, dy}, with_spatial(c.attrs, w.shape()));
  return out;
}
std::vector<Tensor> grad_weight_vjp(const VjpContext& c) {
  Tensor x = c.in[0], dy = c.in[1], dw = c.grad[0];
  std::vector<Tensor> out(2);
  if (c.wants[0]) out[0] = apply1(ops::convolution_grad_input, {dy, dw}, with_spatial(c.attrs, x.shape()));
  if (c.wants[1]) out[1] = apply1(ops::convolution, {x, dw}, without_spatial(c.attrs));
  return out;
}

// The expansions: windows of the input as a matrix per group, and dots.
Tensor dot(Tensor a, Tensor b, int64_t a_batch, int64_t b_batch, List a_contract, List b_contract) {
  return apply1(ops::dot, {a, b},
                {{"lhs_batch", List{a_batch}},
                 {"rhs_batch", List{b_batch}},
                 {"lhs_contract", std::move(a_contract)},
                 {"rhs_contract", std::move(b_contract)}});
}
// [N, C, ...] -> [N, groups, C / groups, ...]; of a weight dim 0 is cut.
Tensor grouped(Tensor x, int64_t groups, int64_t dim) {
  Shape shape = x.shape();
  shape[dim] /= groups;
  shape.insert(shape.begin() + dim, groups);
  return reshape(x, shape);
}
// Of x [N, C, s...]: [groups, N, o..., C / groups, k...].
Tensor columns(Tensor x, const Window& w, int64_t groups) {
  Tensor cut = windows_of(grouped(x, groups, 1), w, 0);
  const auto dims = static_cast<int64_t>(w.dims());
  List order{1, 0};
  for (int64_t d = 0; d < dims; ++d) order.push_back(3 + d);
  order.push_back(2);
  for (int64_t d = 0; d < dims; ++d) order.push_back(3 + dims + d);
  return permute(cut, order);
}
std::vector<Tensor> convolution_expand(const ExpandContext& c) {
  Tensor x = c.in[0], w = c.in[1];
  const int64_t groups = c.attrs.integer("groups"), dims = x.ndim() - 2;
  Tensor cols = columns(x, window_of(c.attrs, tail(w.shape())), groups);
  Tensor y = dot(grouped(w, groups, 0), cols, 0, 0, functions::counted(2, 3 + dims),
                 functions::counted(2 + dims, 3 + 2 * dims));
  List order{2, 0, 1};  // [groups, O / groups, N, o...]
  for (int64_t d = 0; d < dims; ++d) order.push_back(3 + d);
  const Shape made = y.shape();
  const List counts(made.begin() + 3, made.end());
  y = reshape(permute(y, order), joined(x.size(0), w.size(0), counts));
  return {c.in.size() == 3 ? y + broadcast_dims(c.in[2], y.shape(), {1}) : y};
}
std::vector<Tensor> grad_input_expand(const ExpandContext& c) {
  Tensor dy = wide(c.in[0]), w = wide(c.in[1]);
  const int64_t groups = c.attrs.integer("groups"), dims = dy.ndim() - 2;
  const Window window = window_of(c.attrs, tail(w.shape()));
  // [groups, N, o..., C / groups, k...]
  Tensor cols = dot(grouped(dy, groups, 1), grouped(w, groups, 0), 1, 0, {2}, {1});
  List order{1, 0, 2 + dims};
  for (int64_t d = 0; d < dims; ++d) order.push_back(2 + d);
  for (int64_t d = 0; d < dims; ++d) order.push_back(3 + dims + d);
  Tensor dx = expanded_fold(permute(cols, order), window, c.attrs.list("spatial"));
  dx = reshape(dx, joined(dy.size(0), w.size(1) * groups, c.attrs.list("spatial")));
  return {convert(dx, c.in[0].dtype())};
}
std::vector<Tensor> grad_weight_expand(const ExpandContext& c) {
  Tensor x = c.in[0], dy = c.in[1];
  const int64_t groups = c.attrs.integer("groups"), dims = x.ndim() - 2;
  const Window window = window_of(c.attrs, c.attrs.list("spatial"));
  List positions = functions::counted(3, 3 + dims);
  positions.insert(positions.begin(), 0);
  Tensor dw = dot(grouped(dy, groups, 1), columns(x, window, groups), 1, 0, positions,
                  functions::counted(1, 2 + dims));
  return {reshape(dw, joined(dy.size(1), x.size(1) / groups, c.attrs.list("spatial")))};
}

Attrs plain(List stride, List lo, List hi, List dilation, int64_t groups) {
  return {{"stride", stride}, {"lo", lo}, {"hi", hi}, {"dilation", dilation}, {"groups", groups}};
}
struct Case {
  Shape x, w;
  Attrs attrs;
};
// Odd sizes, groups, strides that leave a rest, paddings that differ, 1 to 3 dims.
std::vector<Case> cases() {
  return {
      {{2, 3, 7}, {4, 3, 3}, plain({2}, {1}, {0}, {1}, 1)},
      {{2, 4, 7, 6}, {6, 2, 3, 2}, plain({1, 2}, {1, 0}, {1, 1}, {2, 1}, 2)},
      {{3, 5, 4, 5}, {5, 1, 3, 3}, plain({1, 1}, {1, 1}, {1, 1}, {1, 1}, 5)},
      {{1, 2, 5, 4, 3}, {3, 2, 2, 3, 1}, plain({2, 1, 1}, {0, 1, 0}, {1, 1, 0}, {1, 1, 2}, 1)},
  };
}
std::vector<Sample> samples(OpId op) {
  std::vector<Sample> out;
  for (const Case& one : cases()) {
    Types in{f32(one.x), f32(one.w)};
    const TypedShape y = infer_convolution({op, in, one.attrs, {}})[0];
    Attrs attrs = one.attrs;
    if (op == ops::convolution_grad_input) attrs.set("spatial", tail(one.x)), in = {y, f32(one.w)};
    if (op == ops::convolution_grad_weight) attrs.set("spatial", tail(one.w)), in = {f32(one.x), y};
    out.push_back(floats(in, attrs, -1, 1));
  }
  if (op == ops::convolution) {
    out.push_back(out[1]);
    out.back().in.push_back(f32({6}));
  }
  return out;
}
}  // namespace

std::vector<Op> convolution_rows() {
  const AttrField groups{"groups", AttrType::integer}, spatial{"spatial", AttrType::list};
  return {
      {.id = ops::convolution,
       .kind = OpKind::composite,
       .attrs = window_attrs({groups}),
       .infer = infer_convolution,
       .split = split_convolution,
       .vjp = convolution_vjp,
       .expand = convolution_expand,
       .samples = samples(ops::convolution),
       .library = Library::convolution},
      {.id = ops::convolution_grad_input,
       .kind = OpKind::composite,
       .attrs = window_attrs({groups, spatial}),
       .infer = infer_grad_input,
       .split = split_grad_input,
       .vjp = grad_input_vjp,
       .expand = grad_input_expand,
       .linear = {0, 1},
       .samples = samples(ops::convolution_grad_input),
       .library = Library::convolution},
      {.id = ops::convolution_grad_weight,
       .kind = OpKind::composite,
       .attrs = window_attrs({groups, spatial}),
       .infer = infer_grad_weight,
       .split = split_grad_weight,
       .vjp = grad_weight_vjp,
       .expand = grad_weight_expand,
       .linear = {0, 1},
       .samples = samples(ops::convolution_grad_weight),
       .library = Library::convolution},
  };
}

}  // namespace lockstep
