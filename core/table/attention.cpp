// Attention rows: sdpa with masks, a bias, dropout and grouped queries, and its gradient from the
// log-sum-exp.
#include "core/table/attention.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

namespace {
using namespace rules;
using List = std::vector<int64_t>;

// q [B,T,H,D], k and v [B,S,Hk,D] -> o like q, lse [B,H,T]; causal needs S == T.
void check_heads(const InferContext& c, size_t first) {
  const char* roles[] = {"q", "k", "v"};
  for (size_t i = 0; i < 3; ++i) {
    expect_rank(c, first + i, 4, roles[i]);
    expect_float(c, first + i);
    if (c.in[first + i].dtype != c.in[first].dtype)
      c.fail(str("dtypes differ: q ", in_text(c, first), ", ", roles[i], " ", in_text(c, first + i),
                 "; convert one?"));
  }
  const Shape &q = c.in[first].shape, &k = c.in[first + 1].shape;
  if (c.in[first + 2].shape != k)
    c.fail(str("k is ", in_text(c, first + 1), ", v is ", in_text(c, first + 2), ": they have equal shapes"));
  if (q[0] != k[0] || q[3] != k[3])
    c.fail(
        str("q is ", in_text(c, first), ", k is ", in_text(c, first + 1), ": batch and head_dim are equal"));
  if (k[2] == 0 || q[2] % k[2] != 0)
    c.fail(str("q has ", q[2], " heads, k and v have ", k[2], ": kv_heads divides heads"));
}
// mask and bias: each dim is that of the scores, or 1.
void check_over_scores(const InferContext& c, size_t i, const Shape& scores, std::string_view role) {
  expect_rank(c, i, 4, role);
  for (size_t d = 0; d < 4; ++d)
    if (c.in[i].shape[d] != scores[d] && c.in[i].shape[d] != 1)
      c.fail(str(role, " is ", in_text(c, i), ": each dim is that of the scores ", scores,
                 " [batch, heads, tokens, keys], or 1"));
}
void check_masks(const InferContext& c, const AttentionReads& reads) {
  const Shape &q = c.in[reads.first].shape, &k = c.in[reads.first + 1].shape;
  const Shape scores{q[0], q[2], q[1], k[1]};
  if (reads.causal && q[1] != k[1])
    c.fail(str("q has ", q[1], " tokens, k has ", k[1], ": a causal mask needs as many"));
  if (c.attrs.has("window") && reads.window < 1)
    c.fail(
        str("window is ", reads.window, ", needs 1 or more: a token sees itself and the window - 1 before"));
  if (reads.window && !reads.causal)
    c.fail(str("window is ", reads.window, " without causal: a window ends at its token"));
  if (reads.lengths) {
    expect_dtype(c, reads.lengths, DType::i32, "lengths");
    if (c.in[reads.lengths].shape != Shape{q[0]})
      c.fail(str("lengths is ", in_text(c, reads.lengths), ", needs [", q[0], "], one for each sequence"));
  }
  if (reads.documents) {
    expect_dtype(c, reads.documents, DType::i32, "documents");
    if (q[1] != k[1]) c.fail(str("q has ", q[1], " tokens, k has ", k[1], ": documents need as many"));
    if (c.in[reads.documents].shape != Shape{q[0], q[1]})
      c.fail(str("documents is ", in_text(c, reads.documents), ", needs ", Shape{q[0], q[1]},
                 ", one for each token"));
  }
  if (reads.mask) {
    expect_dtype(c, reads.mask, DType::boolean, "mask");
    check_over_scores(c, reads.mask, scores, "mask");
  }
  if (reads.bias) {
    expect_dtype(c, reads.bias, statistic(c.in[reads.first].dtype), "bias");
    check_over_scores(c, reads.bias, scores, "bias");
  }
  if (reads.seed) {
    if (!(reads.dropout > 0 && reads.dropout < 1))
      c.fail(str("dropout is ", reads.dropout, ", needs more than 0 and less than 1"));
    (void)c.attrs.integer("stream");
    expect_scalar(c, reads.seed, DType::i64, "the seed");
    expect_scalar(c, reads.seed + 1, DType::i64, "the step");
    expect_scalar(c, reads.seed + 2, DType::i64, "the sample");
  }
}
TypedShape lse_of(const TypedShape& q) { return {statistic(q.dtype), {q.shape[0], q.shape[2], q.shape[1]}}; }
Types infer_sdpa(const InferContext& c) {
  const AttentionReads reads = attention_reads(c.op, c.attrs);
  expect_count(c, reads.inputs);
  check_heads(c, 0);
  check_masks(c, reads);
  (void)c.attrs.number("scale");
  return {c.in[0], lse_of(c.in[0])};
}
Types infer_sdpa_grad(const InferContext& c) {  // dy, q, k, v, o, lse -> dq, dk, dv
  const AttentionReads reads = attention_reads(c.op, c.attrs);
  expect_count(c, reads.inputs);
  check_heads(c, 1);
  check_masks(c, reads);
  (void)c.attrs.number("scale");
  expect_like(c, 0, 1);
  const TypedShape& q = c.in[1];
  if (c.in[4] != q) c.fail(str("o is ", in_text(c, 4), ", needs ", text(q)));
  if (c.in[5] != lse_of(q)) c.fail(str("lse is ", in_text(c, 5), ", needs ", text(lse_of(q))));
  Types out{q, c.in[2], c.in[3]};
  if (reads.bias_gradient)
    out.push_back({statistic(q.dtype), {q.shape[0], q.shape[2], q.shape[1], c.in[2].shape[1]}});
  return out;
}
// Heads may be sharded if every query head has its own key head. Dropout numbers elements over all scores, so
// with dropout each rank holds all of them.
std::string split_attention(const InferContext& c) {
  const AttentionReads reads = attention_reads(c.op, c.attrs);
  if (reads.seed) return "";
  const bool own = c.in[reads.first].shape[2] == c.in[reads.first + 1].shape[2], backward = reads.first > 0;
  const std::string H = own ? "h" : "H", G = own ? "h" : "G";
  const std::string q = "bT" + H + "D", k = "bS" + G + "D", lse = "b" + H + "T", scores = "b" + H + "TS";
  std::vector<std::string> in =
      backward ? std::vector<std::string>{q, q, k, k, q, lse} : std::vector<std::string>{q, k, k};
  if (reads.lengths) in.emplace_back("b");
  if (reads.documents) in.emplace_back("bT");
  for (size_t place : {reads.mask, reads.bias}) {
    if (!place) continue;
    in.push_back(scores);
    for (size_t d = 0; d < 4; ++d)
      if (c.in[place].shape[d] == 1) in.back()[d] = '#';
  }
  std::vector<std::string> out =
      backward ? std::vector<std::string>{q, k, k} : std::vector<std::string>{q, lse};
  if (reads.bias_gradient) out.push_back(scores);
  return join_rule(in, out);
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
// The keys that a row sees, as a bool that broadcasts to the scores; empty: all.
Tensor seen_keys(Tensor scores, const std::vector<Tensor>& in, const AttentionReads& reads) {
  const int64_t batch = scores.size(0), tokens = scores.size(2), keys = scores.size(3);
  Tensor seen;
  auto also = [&](Tensor part) { seen = seen.defined() ? seen && part : part; };
  Shape square{tokens, keys};
  if (reads.causal)
    also(less_equal(iota(scores, square, 1, DType::i32), iota(scores, square, 0, DType::i32)));
  if (reads.window)
    also(less(iota(scores, square, 0, DType::i32) - static_cast<double>(reads.window),
              iota(scores, square, 1, DType::i32)));
  if (reads.lengths)
    also(less(iota(scores, {1, 1, 1, keys}, 3, DType::i32), reshape(in[reads.lengths], {batch, 1, 1, 1})));
  if (reads.documents)
    also(equal(reshape(in[reads.documents], {batch, 1, tokens, 1}),
               reshape(in[reads.documents], {batch, 1, 1, keys})));
  if (reads.mask) also(in[reads.mask]);
  return seen;
}
// Scores [B,H,T,S], masked positions -inf.
Tensor scores(Tensor q, Tensor k, const ExpandContext& c, const AttentionReads& reads) {
  Tensor s = dot(q, k, {0, 2}, {0, 2}, 3, 3) * c.attrs.number("scale");
  if (reads.bias) s = s + c.in[reads.bias];
  Tensor seen = seen_keys(s, c.in, reads);
  return seen.defined() ? where(seen, s, full_like(s, -std::numeric_limits<double>::infinity())) : s;
}
// The factors of dropout: 0 or 1 / (1 - p).
Tensor dropped(Tensor probabilities, const ExpandContext& c, const AttentionReads& reads) {
  Tensor u = apply1(ops::rng_uniform, {c.in[reads.seed], c.in[reads.seed + 1], c.in[reads.seed + 2]},
                    {{"shape", probabilities.shape()}, {"stream", c.attrs.integer("stream")}});
  Tensor kept = less_equal(full_like(u, reads.dropout), u);
  return where(kept, probabilities * (1 / (1 - reads.dropout)), full_like(probabilities, 0));
}
Tensor over_last(Tensor statistic, Tensor like) { return broadcast_dims(statistic, like.shape(), {0, 1, 2}); }
Tensor heads_first_back(Tensor x) { return permute(x, {0, 2, 1, 3}); }  // [B,H,T,D] to [B,T,H,D]

std::vector<Tensor> sdpa_expand(const ExpandContext& c) {
  const AttentionReads reads = attention_reads(ops::sdpa, c.attrs);
  int64_t heads = c.in[0].size(2);
  Tensor q = wide(c.in[0]), k = spread_heads(wide(c.in[1]), heads), v = spread_heads(wide(c.in[2]), heads);
  Tensor s = scores(q, k, c, reads);
  Tensor most = max(s, {3});
  if (reads.may_see_nothing()) {
    most = where(most == -std::numeric_limits<double>::infinity(), full_like(most, 0), most);
  }
  Tensor p = exp(s - over_last(most, s)), total = sum(p, {3});
  if (reads.may_see_nothing()) total = where(total == 0, full_like(total, 1), total);
  if (reads.seed) p = dropped(p, c, reads);
  Tensor o = dot(p, v, {0, 1}, {0, 2}, 3, 1);  // [B,H,T,D]
  return {convert(heads_first_back(o / over_last(total, o)), c.in[0].dtype()), most + log(total)};
}
std::vector<Tensor> sdpa_grad_expand(const ExpandContext& c) {
  const AttentionReads reads = attention_reads(ops::sdpa_grad, c.attrs);
  int64_t heads = c.in[1].size(2), kv_heads = c.in[2].size(2);
  Tensor dy = wide(c.in[0]), q = wide(c.in[1]), k = spread_heads(wide(c.in[2]), heads),
         v = spread_heads(wide(c.in[3]), heads), o = wide(c.in[4]), lse = c.in[5];
  Tensor s = scores(q, k, c, reads);
  Tensor p = exp(s - over_last(lse, s));
  Tensor delta = permute(sum(dy * o, {3}), {0, 2, 1});
  Tensor dp = dot(dy, v, {0, 2}, {0, 2}, 3, 3);
  if (reads.seed) dp = dropped(dp, c, reads);
  Tensor dbias = p * (dp - over_last(delta, dp)), ds = dbias * c.attrs.number("scale");
  if (reads.seed) p = dropped(p, c, reads);
  Tensor dq = heads_first_back(dot(ds, k, {0, 1}, {0, 2}, 3, 1));
  Tensor dk = heads_first_back(dot(ds, q, {0, 1}, {0, 2}, 2, 1));
  Tensor dv = heads_first_back(dot(p, dy, {0, 1}, {0, 2}, 2, 1));
  DType dtype = c.in[1].dtype();
  std::vector<Tensor> out{convert(dq, dtype), convert(gather_heads(dk, kv_heads), dtype),
                          convert(gather_heads(dv, kv_heads), dtype)};
  if (reads.bias_gradient) out.push_back(dbias);
  return out;
}
// The scores' gradient, summed over the dims along which the bias was broadcast.
Tensor bias_gradient(Tensor scores, const Tensor& bias) {
  List dims;
  for (int d = 0; d < 4; ++d)
    if (bias.size(d) != scores.size(d)) dims.push_back(d);
  return dims.empty() ? scores : reshape(sum(scores, dims), bias.shape());
}
std::vector<Tensor> sdpa_vjp(const VjpContext& c) {
  const AttentionReads reads = attention_reads(ops::sdpa, c.attrs);
  std::vector<Tensor> in{c.grad[0], c.in[0], c.in[1], c.in[2], c.out[0], c.out[1]}, out(c.in.size());
  in.insert(in.end(), c.in.begin() + 3, c.in.end());
  Attrs attrs = c.attrs;
  const bool biased = reads.bias && c.wants[reads.bias];
  if (biased) attrs.set("bias_gradient", true);
  std::vector<Tensor> made = apply(ops::sdpa_grad, in, attrs);
  std::copy(made.begin(), made.begin() + 3, out.begin());
  if (biased) out[reads.bias] = bias_gradient(made[3], c.in[reads.bias]);
  return out;
}

Attrs mask(bool causal, double scale) { return {{"causal", causal}, {"scale", scale}}; }
Types forward_types(int64_t tokens, int64_t others, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  return {f32({2, tokens, heads, head_dim}), f32({2, others, kv_heads, head_dim}),
          f32({2, others, kv_heads, head_dim})};
}
Types grad_types(const Types& in) {
  const Shape& q = in[0].shape;
  Types out{in[0], in[0], in[1], in[2], in[0], f32({q[0], q[2], q[1]})};
  out.insert(out.end(), in.begin() + 3, in.end());
  return out;
}
// Forward samples: no mask and causal, then each kind of mask alone and in combinations.
std::vector<Sample> forward_samples() {
  const Types plain = forward_types(5, 5, 3, 3, 4), grouped = forward_types(7, 7, 4, 2, 6),
              wide_keys = forward_types(1, 9, 6, 1, 2), cross = forward_types(3, 6, 4, 2, 3);
  const std::vector<std::pair<std::string, Attr>> open{{"causal", false}, {"scale", 0.7}},
      causal{{"causal", true}, {"scale", 0.4}};
  auto sample = [](Types in, const Types& more, const auto& attrs, const auto& others, int64_t int_hi) {
    in.insert(in.end(), more.begin(), more.end());
    Attrs all;
    for (const auto* list : {&attrs, &others})
      for (const auto& [name, value] : *list) all.set(name, value);
    Sample made = floats(std::move(in), all);
    made.int_hi = int_hi;
    return made;
  };
  using More = std::vector<std::pair<std::string, Attr>>;
  const Types scalars{i64({}), i64({}), i64({})};
  const TypedShape lengths = i32({2});
  return {
      floats(plain, mask(true, 0.5)),
      floats(grouped, mask(true, 0.4)),
      floats(wide_keys, mask(false, 0.7)),
      sample(grouped, {}, causal, More{{"window", 3}}, 1),
      sample(plain, {}, causal, More{{"window", 1}}, 1),
      sample(cross, {lengths}, open, More{{"lengths", true}}, 7),  // 0 ... 6 of 6 keys
      sample(grouped, {i32({2, 7})}, causal, More{{"documents", true}}, 3),
      sample(plain, {boolean({2, 1, 5, 5})}, open, More{{"mask", true}}, 1),
      sample(cross, {boolean({1, 4, 1, 6})}, open, More{{"mask", true}}, 1),
      sample(plain, {f32({1, 3, 5, 5})}, open, More{{"bias", true}}, 1),
      sample(cross, {f32({2, 1, 3, 1})}, open, More{{"bias", true}}, 1),
      sample(plain, {f32({2, 3, 5, 5})}, causal, More{{"bias", true}}, 1),
      sample(cross, scalars, open, More{{"dropout", 0.3}, {"stream", 77}}, 4),
      sample(grouped, {lengths, i32({2, 7}), boolean({2, 4, 7, 7}), f32({1, 4, 7, 7})}, causal,
             More{{"window", 4}, {"lengths", true}, {"documents", true}, {"mask", true}, {"bias", true}}, 7),
      sample(plain, {lengths, boolean({2, 1, 1, 5}), f32({1, 3, 5, 5}), scalars[0], scalars[1], scalars[2]},
             causal,
             More{{"lengths", true}, {"mask", true}, {"bias", true}, {"dropout", 0.5}, {"stream", -3}}, 6),
  };
}
std::vector<Sample> backward_samples() {
  std::vector<Sample> out;
  for (const Sample& forward : forward_samples()) {
    Sample made = forward;
    made.in = grad_types(forward.in);
    made.lo = -1, made.hi = 1;
    if (made.attrs.flag("bias")) made.attrs.set("bias_gradient", true);
    out.push_back(std::move(made));
  }
  return out;
}
std::vector<AttrField> attributes(bool backward) {
  std::vector<AttrField> out{{"causal", AttrType::flag, true},    {"scale", AttrType::number},
                             {"window", AttrType::integer, true}, {"lengths", AttrType::flag, true},
                             {"documents", AttrType::flag, true}, {"mask", AttrType::flag, true},
                             {"bias", AttrType::flag, true},      {"dropout", AttrType::number, true},
                             {"stream", AttrType::integer, true}};
  if (backward) out.push_back({"bias_gradient", AttrType::flag, true});
  return out;
}
}  // namespace

AttentionReads attention_reads(OpId op, const Attrs& attrs) {
  AttentionReads out;
  const bool backward = op == ops::sdpa_grad;
  out.first = backward ? 1 : 0;
  out.inputs = backward ? 6 : 3;
  out.causal = attrs.flag("causal");
  if (attrs.has("window")) out.window = attrs.integer("window");
  for (auto [name, place] : {std::pair<const char*, size_t*>{"lengths", &out.lengths},
                             {"documents", &out.documents},
                             {"mask", &out.mask},
                             {"bias", &out.bias}})
    if (attrs.flag(name)) *place = out.inputs++;
  if (attrs.has("dropout")) {
    out.dropout = attrs.number("dropout");
    out.seed = out.inputs;
    out.inputs += 3;
  }
  out.bias_gradient = attrs.flag("bias_gradient");
  return out;
}
AttentionReads attention_reads(const Node& node) { return attention_reads(node.op, node.attrs); }
std::string masks_text(const AttentionReads& reads) {
  return str(reads.causal ? " causal" : "", reads.window ? str(" window=", reads.window) : "",
             reads.lengths ? " lengths" : "", reads.documents ? " documents" : "", reads.mask ? " mask" : "",
             reads.bias ? " bias" : "", reads.bias_gradient ? " dbias" : "");
}
double attention_pairs(const AttentionReads& reads, int64_t queries, int64_t keys) {
  const double all = static_cast<double>(queries) * static_cast<double>(keys);
  if (reads.window && reads.window < keys)
    return static_cast<double>(queries) * static_cast<double>(reads.window) -
           0.5 * static_cast<double>(reads.window) * static_cast<double>(reads.window - 1);
  return reads.causal ? all * 0.5 : all;
}

std::vector<Op> attention_rows() {
  return {
      {.id = ops::sdpa,
       .kind = OpKind::composite,
       .attrs = attributes(false),
       .infer = infer_sdpa,
       .split = split_attention,
       .vjp = sdpa_vjp,
       .expand = sdpa_expand,
       .samples = forward_samples(),
       .statistics = 1,
       .library = Library::attention},
      {.id = ops::sdpa_grad,
       .kind = OpKind::composite,
       .attrs = attributes(true),
       .infer = infer_sdpa_grad,
       .split = split_attention,
       .expand = sdpa_grad_expand,
       .linear = {0},
       .samples = backward_samples(),
       .library = Library::attention},
  };
}

}  // namespace lockstep
