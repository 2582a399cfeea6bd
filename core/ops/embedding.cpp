// Rows around the token stream: embedding and its gradient, rotary positions, dropout.
#include <cmath>

#include "core/base/error.h"
#include "core/ops/composites.h"
#include "core/ops/functions.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
using namespace rules;
using Grads = std::vector<Tensor>;

Types infer_embedding(const InferContext& c) { return op_row(ops::take).infer(c); }
std::string split_embedding(const InferContext& c) { return op_row(ops::take).split(c); }
// dy [ids..., row...], ids -> [rows, row...]: index_add with the arguments in the order of a gradient.
std::pair<Types, Attrs> as_index_add(const InferContext& c) {
  expect_count(c, 2);
  return {{c.in[1], c.in[0]}, c.attrs};
}
Types infer_embedding_grad(const InferContext& c) {
  auto [in, attrs] = as_index_add(c);
  return op_row(ops::index_add).infer({c.op, in, attrs, c.at});
}
std::string split_embedding_grad(const InferContext& c) {
  auto [in, attrs] = as_index_add(c);
  std::string rule = op_row(ops::index_add).split({c.op, in, attrs, c.at});  // "ab,abc->#c" to "abc,ab->#c"
  size_t comma = rule.find(','), arrow = rule.find("->");
  return rule.substr(comma + 1, arrow - comma - 1) + "," + rule.substr(0, comma) + rule.substr(arrow);
}
Grads embedding_vjp(const VjpContext& c) {
  return {apply1(ops::embedding_grad, {c.grad[0], c.in[1]}, {{"rows", c.in[0].size(0)}}), {}};
}

Types infer_rope(const InferContext& c) {
  expect_count(c, 1);
  expect_rank(c, 0, 4, "input");
  expect_float(c, 0);
  if (c.in[0].shape[3] % 2 != 0)
    c.fail(
        str("input is ", in_text(c, 0), ": head_dim ", c.in[0].shape[3], " is odd, and pairs are rotated"));
  if (!(c.attrs.number("theta") > 0))
    c.fail(str("theta is ", c.attrs.number("theta"), ", needs a positive number"));
  (void)c.attrs.flag("inverse");
  return {c.in[0]};
}
// Pair (i, i + D/2) of token t turns by t * theta^(-2i/D). Frequencies are computed in f64, angles in the
// statistic dtype.
std::vector<Tensor> rope_expand(const ExpandContext& c) {
  Tensor x = wide(c.in[0]);
  int64_t tokens = x.size(1), half = x.size(3) / 2;
  Tensor index = iota(x, {half}, 0, DType::f64);
  Tensor frequency =
      convert(exp(index * (-std::log(c.attrs.number("theta")) / static_cast<double>(half))), x.dtype());
  Shape table{tokens, half};
  Tensor angle = iota(x, table, 0, x.dtype()) * broadcast_dims(frequency, table, {1});
  Tensor low = slice(x, 3, 0, half), high = slice(x, 3, half, 2 * half);
  Tensor cosine = broadcast_dims(cos(angle), low.shape(), {1, 3}),
         sine = broadcast_dims(sin(angle), low.shape(), {1, 3});
  Tensor first = c.attrs.flag("inverse") ? low * cosine + high * sine : low * cosine - high * sine;
  Tensor second = c.attrs.flag("inverse") ? high * cosine - low * sine : high * cosine + low * sine;
  return {concat({convert(first, c.in[0].dtype()), convert(second, c.in[0].dtype())}, 3)};
}
Grads rope_vjp(const VjpContext& c) {
  return {apply1(ops::rope, {c.grad[0]},
                 {{"theta", c.attrs.number("theta")}, {"inverse", !c.attrs.flag("inverse")}})};
}

Types infer_dropout(const InferContext& c) {  // x, seed, step, sample
  expect_count(c, 4);
  expect_float(c, 0);
  expect_scalar(c, 1, DType::i64, "the seed");
  expect_scalar(c, 2, DType::i64, "the step");
  expect_scalar(c, 3, DType::i64, "the sample");
  (void)c.attrs.integer("stream");
  double p = c.attrs.number("p");
  if (!(p >= 0 && p <= 1)) c.fail(str("p is ", p, ", needs a probability between 0 and 1"));
  return {c.in[0]};
}
std::vector<Tensor> dropout_expand(const ExpandContext& c) {
  Tensor x = wide(c.in[0]);
  double p = c.attrs.number("p");
  Tensor u = apply1(ops::rng_uniform, {c.in[1], c.in[2], c.in[3]},
                    {{"shape", x.shape()}, {"stream", c.attrs.integer("stream")}});
  Tensor kept = less_equal(full_like(u, p), u);
  return {convert(where(kept, x * (p < 1 ? 1 / (1 - p) : 0), full_like(x, 0)), c.in[0].dtype())};
}
Grads dropout_vjp(const VjpContext& c) {
  return {apply1(ops::dropout, {c.grad[0], c.in[1], c.in[2], c.in[3]}, c.attrs), {}, {}, {}};
}

Attrs turn(double theta, bool inverse) { return {{"theta", theta}, {"inverse", inverse}}; }
Sample drop(Shape shape, double p, int64_t stream) {
  return floats({f32(std::move(shape)), i64({}), i64({}), i64({})}, {{"p", p}, {"stream", stream}});
}
}  // namespace

std::vector<Op> embedding_rows() {
  constexpr auto kind = OpKind::composite;
  return {
      {.id = ops::embedding,
       .kind = kind,
       .infer = infer_embedding,
       .split = split_embedding,
       .vjp = embedding_vjp,
       .expand = [](const ExpandContext& c) { return std::vector<Tensor>{take(c.in[0], c.in[1])}; },
       .linear = {0},
       .samples = {integers({f32({4, 5}), i32({3, 2})}), integers({f32({7, 6}), i32({1, 9})})}},
      {.id = ops::embedding_grad,
       .kind = kind,
       .attrs = {{"rows", AttrType::integer}},
       .infer = infer_embedding_grad,
       .split = split_embedding_grad,
       .expand =
           [](const ExpandContext& c) {
             return std::vector<Tensor>{apply1(ops::index_add, {c.in[1], c.in[0]}, c.attrs)};
           },
       .linear = {0},
       .samples = {integers({f32({3, 2, 5}), i32({3, 2})}, {{"rows", 4}}),
                   integers({f32({1, 9, 6}), i32({1, 9})}, {{"rows", 7}})},
       .library = Library::row_sums},
      {.id = ops::rope,
       .kind = kind,
       .attrs = {{"theta", AttrType::number}, {"inverse", AttrType::flag, true}},
       .infer = infer_rope,
       .split = [](const InferContext&) { return "bThD->bThD"; },
       .vjp = rope_vjp,
       .expand = rope_expand,
       .linear = {0},
       .samples = {floats({f32({2, 5, 3, 4})}, turn(10000, false)),
                   floats({f32({1, 17, 1, 6})}, turn(100, true)),
                   floats({f32({3, 1, 2, 2})}, turn(10000, false))}},
      // Elements are numbered over the whole tensor, so a rank holds all of it.
      {.id = ops::dropout,
       .kind = kind,
       .attrs = {{"p", AttrType::number}, {"stream", AttrType::integer}},
       .infer = infer_dropout,
       .split = unsplit,
       .vjp = dropout_vjp,
       .expand = dropout_expand,
       .linear = {0},
       .samples = {drop({3, 5}, 0.5, 12345), drop({2, 1, 17}, 0.1, -7), drop({7}, 1, 3)}},
  };
}

}  // namespace lockstep
