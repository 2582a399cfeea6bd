// Attention rows: sdpa with a causal mask and grouped queries, and its gradient from the log-sum-exp.
#include <limits>

#include "core/base/error.h"
#include "core/ops/composites.h"
#include "core/ops/functions.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
using namespace rules;
using List = std::vector<int64_t>;

// q [B,T,H,D], k and v [B,S,Hk,D] -> o like q, lse [B,H,T]; causal needs S == T.
Types infer_sdpa(const InferContext& c) {
  expect_count(c, 3);
  const char* roles[] = {"q", "k", "v"};
  for (size_t i = 0; i < 3; ++i) {
    expect_rank(c, i, 4, roles[i]);
    expect_float(c, i);
    if (c.in[i].dtype != c.in[0].dtype)
      c.fail(str("dtypes differ: q ", in_text(c, 0), ", ", roles[i], " ", in_text(c, i), "; convert one?"));
  }
  const Shape &q = c.in[0].shape, &k = c.in[1].shape;
  if (c.in[2].shape != k)
    c.fail(str("k is ", in_text(c, 1), ", v is ", in_text(c, 2), ": they have equal shapes"));
  if (q[0] != k[0] || q[3] != k[3])
    c.fail(str("q is ", in_text(c, 0), ", k is ", in_text(c, 1), ": batch and head_dim are equal"));
  if (k[2] == 0 || q[2] % k[2] != 0)
    c.fail(str("q has ", q[2], " heads, k and v have ", k[2], ": kv_heads divides heads"));
  if (c.attrs.flag("causal") && q[1] != k[1])
    c.fail(str("q has ", q[1], " tokens, k has ", k[1], ": a causal mask needs as many"));
  (void)c.attrs.number("scale");
  return {c.in[0], {statistic(c.in[0].dtype), {q[0], q[2], q[1]}}};
}
Types infer_sdpa_grad(const InferContext& c) {  // dy, q, k, v, o, lse -> dq, dk, dv
  expect_count(c, 6);
  Types forward_in(c.in.begin() + 1, c.in.begin() + 4);
  Types forward = infer_sdpa({c.op, forward_in, c.attrs, c.at});
  expect_like(c, 0, 1);
  if (c.in[4] != forward[0]) c.fail(str("o is ", in_text(c, 4), ", needs ", text(forward[0])));
  if (c.in[5] != forward[1]) c.fail(str("lse is ", in_text(c, 5), ", needs ", text(forward[1])));
  return forward_in;
}
// Heads may be sharded when every query head has its own key head.
std::string split_sdpa(const InferContext& c) {
  return c.in[0].shape[2] == c.in[1].shape[2] ? "bThD,bShD,bShD->bThD,bhT" : "bTHD,bSGD,bSGD->bTHD,bHT";
}
std::string split_sdpa_grad(const InferContext& c) {
  return c.in[1].shape[2] == c.in[2].shape[2] ? "bThD,bThD,bShD,bShD,bThD,bhT->bThD,bShD,bShD"
                                              : "bTHD,bTHD,bSGD,bSGD,bTHD,bHT->bTHD,bSGD,bSGD";
}

// [B,S,Hk,D] to [B,S,H,D]: query head h reads key head h / (H / Hk).
Tensor spread_heads(Tensor x, int64_t heads) {
  if (x.size(2) == heads) return x;
  int64_t group = heads / x.size(2);
  Shape grouped{x.size(0), x.size(1), x.size(2), group, x.size(3)};
  return reshape(broadcast_dims(x, grouped, {0, 1, 2, 4}), {x.size(0), x.size(1), heads, x.size(3)});
}
Tensor gather_heads(Tensor x, int64_t kv_heads) {
  if (x.size(2) == kv_heads) return x;
  return sum(reshape(x, {x.size(0), x.size(1), kv_heads, x.size(2) / kv_heads, x.size(3)}), {3});
}
Tensor dot(Tensor a, Tensor b, List lhs_batch, List rhs_batch, int64_t lhs_contract, int64_t rhs_contract) {
  return apply1(ops::dot, {a, b},
                {{"lhs_batch", lhs_batch},
                 {"rhs_batch", rhs_batch},
                 {"lhs_contract", List{lhs_contract}},
                 {"rhs_contract", List{rhs_contract}}});
}
// Scores [B,H,T,S], masked positions -inf.
Tensor scores(Tensor q, Tensor k, const Attrs& attrs) {
  Tensor s = dot(q, k, {0, 2}, {0, 2}, 3, 3) * attrs.number("scale");
  if (!attrs.flag("causal")) return s;
  Shape square{s.size(2), s.size(3)};
  Tensor seen = less_equal(iota(s, square, 1, DType::i32), iota(s, square, 0, DType::i32));
  return where(seen, s, full_like(s, -std::numeric_limits<double>::infinity()));
}
Tensor over_last(Tensor statistic, Tensor like) { return broadcast_dims(statistic, like.shape(), {0, 1, 2}); }
Tensor heads_first_back(Tensor x) { return permute(x, {0, 2, 1, 3}); }  // [B,H,T,D] to [B,T,H,D]

std::vector<Tensor> sdpa_expand(const ExpandContext& c) {
  int64_t heads = c.in[0].size(2);
  Tensor q = wide(c.in[0]), k = spread_heads(wide(c.in[1]), heads), v = spread_heads(wide(c.in[2]), heads);
  Tensor s = scores(q, k, c.attrs);
  Tensor most = max(s, {3}), p = exp(s - over_last(most, s)), total = sum(p, {3});
  Tensor o = dot(p, v, {0, 1}, {0, 2}, 3, 1);  // [B,H,T,D]
  return {convert(heads_first_back(o / over_last(total, o)), c.in[0].dtype()), most + log(total)};
}
std::vector<Tensor> sdpa_grad_expand(const ExpandContext& c) {
  int64_t heads = c.in[1].size(2), kv_heads = c.in[2].size(2);
  Tensor dy = wide(c.in[0]), q = wide(c.in[1]), k = spread_heads(wide(c.in[2]), heads),
         v = spread_heads(wide(c.in[3]), heads), o = wide(c.in[4]), lse = c.in[5];
  Tensor s = scores(q, k, c.attrs);
  Tensor p = exp(s - over_last(lse, s));
  Tensor delta = permute(sum(dy * o, {3}), {0, 2, 1});
  Tensor dp = dot(dy, v, {0, 2}, {0, 2}, 3, 3);
  Tensor ds = p * (dp - over_last(delta, dp)) * c.attrs.number("scale");
  Tensor dq = heads_first_back(dot(ds, k, {0, 1}, {0, 2}, 3, 1));
  Tensor dk = heads_first_back(dot(ds, q, {0, 1}, {0, 2}, 2, 1));
  Tensor dv = heads_first_back(dot(p, dy, {0, 1}, {0, 2}, 2, 1));
  DType dtype = c.in[1].dtype();
  return {convert(dq, dtype), convert(gather_heads(dk, kv_heads), dtype),
          convert(gather_heads(dv, kv_heads), dtype)};
}
std::vector<Tensor> sdpa_vjp(const VjpContext& c) {
  return apply(ops::sdpa_grad, {c.grad[0], c.in[0], c.in[1], c.in[2], c.out[0], c.out[1]}, c.attrs);
}

Attrs mask(bool causal, double scale) { return {{"causal", causal}, {"scale", scale}}; }
Types forward_types(int64_t tokens, int64_t others, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  return {f32({2, tokens, heads, head_dim}), f32({2, others, kv_heads, head_dim}),
          f32({2, others, kv_heads, head_dim})};
}
Types grad_types(const Types& in) {
  const Shape& q = in[0].shape;
  return {in[0], in[0], in[1], in[2], in[0], f32({q[0], q[2], q[1]})};
}
}  // namespace

std::vector<Op> attention_rows() {
  Types plain = forward_types(5, 5, 3, 3, 4), grouped = forward_types(7, 7, 4, 2, 6),
        wide_keys = forward_types(1, 9, 6, 1, 2);
  return {
      {.id = ops::sdpa,
       .kind = OpKind::composite,
       .attrs = {{"causal", AttrType::flag, true}, {"scale", AttrType::number}},
       .infer = infer_sdpa,
       .split = split_sdpa,
       .vjp = sdpa_vjp,
       .expand = sdpa_expand,
       .samples = {floats(plain, mask(true, 0.5)), floats(grouped, mask(true, 0.4)),
                   floats(wide_keys, mask(false, 0.7))},
       .statistics = 1,
       .library = Library::attention},
      {.id = ops::sdpa_grad,
       .kind = OpKind::composite,
       .attrs = {{"causal", AttrType::flag, true}, {"scale", AttrType::number}},
       .infer = infer_sdpa_grad,
       .split = split_sdpa_grad,
       .expand = sdpa_grad_expand,
       .linear = {0},
       .samples = {floats(grad_types(plain), mask(true, 0.5), -1, 1),
                   floats(grad_types(grouped), mask(true, 0.4), -1, 1),
                   floats(grad_types(wide_keys), mask(false, 0.7), -1, 1)},
       .library = Library::attention},
  };
}

}  // namespace lockstep
