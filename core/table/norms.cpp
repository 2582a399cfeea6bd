// Rows over the last dim: softmax, layer_norm, rms_norm and their gradients. Statistics are f32 (f64 for
// f64); values are rounded once, at the end.
#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"
#include "core/table/over_rows.h"

namespace lockstep {

namespace {
using namespace rules;
using Grads = std::vector<Tensor>;
using List = std::vector<int64_t>;

void expect_rows(const InferContext& c, size_t i, std::string_view role) {
  expect_float(c, i);
  if (c.in[i].shape.empty()) c.fail(str(role, " is ", in_text(c, i), ", needs 1 or more dims"));
}
Types infer_softmax(const InferContext& c) {
  expect_count(c, 1);
  expect_rows(c, 0, "input");
  return {c.in[0]};
}
// Per-feature weights: [width of x], in x's dtype or that of the statistics.
void expect_weight(const InferContext& c, size_t i, const TypedShape& x, std::string_view role) {
  if (c.in[i].shape != Shape{x.shape.back()})
    c.fail(str(role, " is ", in_text(c, i), ", input ", text(x), " needs [", x.shape.back(), "]"));
  if (c.in[i].dtype != x.dtype && c.in[i].dtype != statistic(x.dtype))
    c.fail(str("dtypes differ: input ", text(x), ", ", role, " ", in_text(c, i), "; convert one side?"));
}
TypedShape statistics_of(const TypedShape& x) {
  return {statistic(x.dtype), Shape(x.shape.begin(), x.shape.end() - 1)};
}
void expect_statistic(const InferContext& c, size_t i, const TypedShape& x, std::string_view role) {
  if (c.in[i] != statistics_of(x))
    c.fail(str(role, " is ", in_text(c, i), ", input ", text(x), " needs ", text(statistics_of(x))));
}

Types infer_layer_norm(const InferContext& c) {  // x, w, b -> y, mean, rstd
  expect_count(c, 3);
  expect_rows(c, 0, "input");
  expect_weight(c, 1, c.in[0], "weight");
  expect_like(c, 1, 2);
  (void)c.attrs.number("eps");
  return {c.in[0], statistics_of(c.in[0]), statistics_of(c.in[0])};
}
Types infer_layer_norm_grad(const InferContext& c) {  // dy, x, w, mean, rstd -> dx, dw, db
  expect_count(c, 5);
  expect_rows(c, 1, "input");
  expect_like(c, 0, 1);
  expect_weight(c, 2, c.in[1], "weight");
  expect_statistic(c, 3, c.in[1], "mean");
  expect_statistic(c, 4, c.in[1], "rstd");
  return {c.in[1], c.in[2], c.in[2]};
}
Types infer_rms_norm(const InferContext& c) {  // x, w -> y, rstd
  expect_count(c, 2);
  expect_rows(c, 0, "input");
  expect_weight(c, 1, c.in[0], "weight");
  (void)c.attrs.number("eps");
  return {c.in[0], statistics_of(c.in[0])};
}
Types infer_rms_norm_grad(const InferContext& c) {  // dy, x, w, rstd -> dx, dw
  expect_count(c, 4);
  expect_rows(c, 1, "input");
  expect_like(c, 0, 1);
  expect_weight(c, 2, c.in[1], "weight");
  expect_statistic(c, 3, c.in[1], "rstd");
  return {c.in[1], c.in[2]};
}

Tensor over_columns(Tensor weight, Tensor like) {
  return broadcast_dims(weight, like.shape(), {like.ndim() - 1});
}

std::vector<Tensor> softmax_expand(const ExpandContext& c) {
  if (numel(c.in[0].shape()) == 0) return {c.in[0]};
  Tensor x = wide(c.in[0]);
  Tensor e = exp(x - over_rows(max(x, {-1}), x));
  return {convert(e / over_rows(sum(e, {-1}), e), c.in[0].dtype())};
}
Grads softmax_vjp(const VjpContext& c) {
  Tensor y = wide(c.out[0]), dy = wide(c.grad[0]);
  return {convert(y * (dy - over_rows(sum(dy * y, {-1}), y)), c.in[0].dtype())};
}

std::vector<Tensor> layer_norm_expand(const ExpandContext& c) {
  Tensor x = wide(c.in[0]), w = wide(c.in[1]), b = wide(c.in[2]);
  Tensor middle = mean(x, {-1});
  Tensor centered = x - over_rows(middle, x);
  Tensor rstd = rsqrt(mean(centered * centered, {-1}) + c.attrs.number("eps"));
  // Values are numbered in the order in which they are made, and C++ does not fix the order of arguments: so
  // one statement each.
  Tensor bias = over_columns(b, x), weight = over_columns(w, x);
  Tensor y = fma(centered * over_rows(rstd, x), weight, bias);
  return {convert(y, c.in[0].dtype()), middle, rstd};
}
Grads layer_norm_vjp(const VjpContext& c) {
  return apply(ops::layer_norm_grad, {c.grad[0], c.in[0], c.in[1], c.out[1], c.out[2]});
}
std::vector<Tensor> layer_norm_grad_expand(const ExpandContext& c) {
  Tensor dy = wide(c.in[0]), x = wide(c.in[1]), w = wide(c.in[2]), rstd = over_rows(c.in[4], x);
  Tensor normal = (x - over_rows(c.in[3], x)) * rstd, g = dy * over_columns(w, x);
  Tensor along = over_rows(-mean(g * normal, {-1}), x), across = g - over_rows(mean(g, {-1}), x);
  Tensor dx = rstd * fma(normal, along, across);
  DType dtype = c.in[2].dtype();
  return {convert(dx, c.in[1].dtype()), convert(sum(dy * normal, leading(x)), dtype),
          convert(sum(dy, leading(x)), dtype)};
}

std::vector<Tensor> rms_norm_expand(const ExpandContext& c) {
  Tensor x = wide(c.in[0]);
  Tensor rstd = rsqrt(mean(x * x, {-1}) + c.attrs.number("eps"));
  Tensor weight = over_columns(wide(c.in[1]), x);
  return {convert(x * over_rows(rstd, x) * weight, c.in[0].dtype()), rstd};
}
Grads rms_norm_vjp(const VjpContext& c) {
  return apply(ops::rms_norm_grad, {c.grad[0], c.in[0], c.in[1], c.out[1]});
}
std::vector<Tensor> rms_norm_grad_expand(const ExpandContext& c) {
  Tensor dy = wide(c.in[0]), x = wide(c.in[1]), w = wide(c.in[2]), rstd = over_rows(c.in[3], x);
  Tensor normal = x * rstd, g = dy * over_columns(w, x);
  Tensor along = over_rows(-mean(g * normal, {-1}), x);
  Tensor dx = rstd * fma(normal, along, g);
  return {convert(dx, c.in[1].dtype()), convert(sum(dy * normal, leading(x)), c.in[2].dtype())};
}

std::vector<Sample> norm_samples(bool bias, const Attrs& attrs) {
  std::vector<Sample> out;
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 1, 16}, Shape{7}}) {
    Types in{f32(shape), f32({shape.back()})};
    if (bias) in.push_back(f32({shape.back()}));
    out.push_back(floats(in, attrs));
  }
  return out;
}
std::vector<Sample> norm_grad_samples(size_t statistics) {
  std::vector<Sample> out;
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 1, 16}, Shape{7}}) {
    Types in{f32(shape), f32(shape), f32({shape.back()})};
    for (size_t i = 0; i < statistics; ++i) in.push_back(f32(Shape(shape.begin(), shape.end() - 1)));
    out.push_back(floats(in, {}, 0.25, 2));
  }
  return out;
}
}  // namespace

std::vector<Op> norm_rows() {
  constexpr auto kind = OpKind::composite;
  const Attrs eps{{"eps", 1e-5}};
  return {
      {.id = ops::softmax,
       .kind = kind,
       .infer = infer_softmax,
       .split = [](const InferContext&) { return "...D->...D"; },
       .vjp = softmax_vjp,
       .expand = softmax_expand,
       .samples = {floats({f32({3, 5})}), floats({f32({2, 1, 17})}, {}, -30, 30), floats({f32({4, 1})})}},
      {.id = ops::layer_norm,
       .kind = kind,
       .attrs = {{"eps", AttrType::number}},
       .infer = infer_layer_norm,
       .split = [](const InferContext&) { return "...D,D,D->...D,...,..."; },
       .vjp = layer_norm_vjp,
       .expand = layer_norm_expand,
       .samples = norm_samples(true, eps),
       .statistics = 2},
      {.id = ops::layer_norm_grad,
       .kind = kind,
       .infer = infer_layer_norm_grad,
       .split = [](const InferContext&) { return "...D,...D,D,...,...->...D,D,D"; },
       .expand = layer_norm_grad_expand,
       .linear = {0},
       .samples = norm_grad_samples(2)},
      {.id = ops::rms_norm,
       .kind = kind,
       .attrs = {{"eps", AttrType::number}},
       .infer = infer_rms_norm,
       .split = [](const InferContext&) { return "...D,D->...D,..."; },
       .vjp = rms_norm_vjp,
       .expand = rms_norm_expand,
       .samples = norm_samples(false, eps),
       .statistics = 1},
      {.id = ops::rms_norm_grad,
       .kind = kind,
       .infer = infer_rms_norm_grad,
       .split = [](const InferContext&) { return "...D,...D,D,...->...D,D"; },
       .expand = rms_norm_grad_expand,
       .linear = {0},
       .samples = norm_grad_samples(1)},
  };
}

}  // namespace lockstep
