// Loss rows: cross_entropy returns a sum and a count (the division happens once, at the end of the step) and
// saves the log-sum-exp.
#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"
#include "core/table/over_rows.h"

namespace lockstep {

namespace {
using namespace rules;
using List = std::vector<int64_t>;

void expect_targets(const InferContext& c, size_t logits, size_t targets) {
  expect_float(c, logits);
  const Shape& shape = c.in[logits].shape;
  if (shape.empty() || shape.back() == 0)
    c.fail(str("logits are ", in_text(c, logits), ", need [..., vocab]"));
  if (c.in[targets].dtype != DType::i32 || c.in[targets].shape != Shape(shape.begin(), shape.end() - 1))
    c.fail(str("logits are ", in_text(c, logits), ", targets are ", in_text(c, targets), ", need ",
               shape_text(DType::i32, Shape(shape.begin(), shape.end() - 1))));
  expect_held(c, "ignore_index", DType::i32);
}
Types infer_cross_entropy(const InferContext& c) {  // logits, targets -> sum, count, lse
  expect_count(c, 2);
  expect_targets(c, 0, 1);
  DType dtype = statistic(c.in[0].dtype);
  return {{dtype, {}}, {DType::i64, {}}, {dtype, c.in[1].shape}};
}
Types infer_cross_entropy_grad(const InferContext& c) {  // dsum, logits, targets, lse -> dlogits
  expect_count(c, 4);
  expect_targets(c, 1, 2);
  DType dtype = statistic(c.in[1].dtype);
  expect_scalar(c, 0, dtype, "dsum");
  if (c.in[3] != TypedShape{dtype, c.in[2].shape})
    c.fail(str("lse is ", in_text(c, 3), ", needs ", shape_text(dtype, c.in[2].shape)));
  return {c.in[1]};
}

Tensor is_target(Tensor targets, Tensor x) { return equal(iota_like(x, -1), over_rows(targets, x)); }
Tensor counted(Tensor targets, const Attrs& attrs) {
  return not_equal(targets, full_like(targets, attrs.integer("ignore_index")));
}

std::vector<Tensor> cross_entropy_expand(const ExpandContext& c) {
  Tensor x = wide(c.in[0]), targets = c.in[1];
  Tensor most = max(x, {-1});
  Tensor lse = log(sum(exp(x - over_rows(most, x)), {-1})) + most;
  Tensor chosen = sum(where(is_target(targets, x), x, full_like(x, 0)), {-1});
  Tensor counts = counted(targets, c.attrs);
  List rows = leading(x);
  return {sum(where(counts, lse - chosen, full_like(lse, 0)), rows), sum(convert(counts, DType::i64), rows),
          lse};
}
std::vector<Tensor> cross_entropy_grad_expand(const ExpandContext& c) {
  Tensor x = wide(c.in[1]), targets = c.in[2];
  Tensor p = exp(x - over_rows(c.in[3], x));
  Tensor dx = (p - convert(is_target(targets, x), x.dtype())) *
              over_rows(where(counted(targets, c.attrs), broadcast_to(c.in[0], targets.shape()),
                              full(x, targets.shape(), 0, x.dtype())),
                        x);
  return {convert(dx, c.in[1].dtype())};
}
std::vector<Tensor> cross_entropy_vjp(const VjpContext& c) {
  return {apply1(ops::cross_entropy_grad, {c.grad[0], c.in[0], c.in[1], c.out[2]}, c.attrs), {}};
}
}  // namespace

std::vector<Op> loss_rows() {
  constexpr auto kind = OpKind::composite;
  // Targets are in [0, 4): one class is ignored in the second sample.
  const Attrs none{{"ignore_index", -100}}, some{{"ignore_index", 2}};
  return {
      // Rows may be sharded: sum and count are then Partial, lse is not.
      {.id = ops::cross_entropy,
       .kind = kind,
       .attrs = {{"ignore_index", AttrType::integer}},
       .infer = infer_cross_entropy,
       .split = [](const InferContext&) { return "...V,...->,,..."; },
       .vjp = cross_entropy_vjp,
       .expand = cross_entropy_expand,
       .samples = {floats({f32({3, 5}), i32({3})}, none),
                   floats({f32({2, 9, 17}), i32({2, 9})}, some, -20, 20),
                   floats({f32({7, 1, 4}), i32({7, 1})}, none)},
       .statistics = 1},
      {.id = ops::cross_entropy_grad,
       .kind = kind,
       .attrs = {{"ignore_index", AttrType::integer}},
       .infer = infer_cross_entropy_grad,
       .split = [](const InferContext&) { return ",...V,...,...->...V"; },
       .expand = cross_entropy_grad_expand,
       .linear = {0},
       .samples = {floats({f32({}), f32({3, 5}), i32({3}), f32({3})}, none),
                   floats({f32({}), f32({2, 9, 17}), i32({2, 9}), f32({2, 9})}, some)}},
  };
}

}  // namespace lockstep
