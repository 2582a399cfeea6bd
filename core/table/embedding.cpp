// Op rows of embedding, its gradient, and dropout.
#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

namespace {
using namespace rules;
using Grads = std::vector<Tensor>;

Types infer_embedding(const InferContext& c) { return op_row(ops::take).infer(c); }
std::string split_embedding(const InferContext& c) { return op_row(ops::take).split(c); }
// dy [ids..., row...], ids -> [rows, row...]: index_add with a gradient's order of arguments.
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
      // Random numbers are indexed over the whole tensor, so it may not be split.
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
