// Attention: options become the inputs and attributes of the row.
#include "core/ops/functions/attention.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/ops/functions/checks.h"
#include "core/ops/functions/creation.h"
#include "core/ops/functions/mask_pattern.h"
#include "core/ops/functions/operators.h"
#include "core/ops/functions/pointwise.h"
#include "core/ops/functions/shape.h"
#include "core/ops/precision.h"

namespace lockstep {

using namespace functions;

namespace {
// mask or bias with four dims, each that of the scores or 1.
Tensor over_scores(Tensor x, const Tensor& q, const Tensor& k, std::string_view role, Here at) {
  const Shape scores{q.size(0), q.size(2), q.size(1), k.size(1)};
  Shape shape = x.shape();
  while (shape.size() < 4) shape.insert(shape.begin(), 1);
  bool fits = shape.size() == 4;
  for (size_t d = 0; fits && d < 4; ++d) fits = shape[d] == scores[d] || shape[d] == 1;
  if (!fits)
    refuse("sdpa", {q}, at,
           str(role, " is ", x.text(), "; matched from the last, its dims are equal to those of the scores ",
               scores, " [batch, heads, tokens, keys], or 1"));
  return shape == x.shape() ? x : reshape(x, shape);
}
// The options with what the mask says as causal, window and lengths, where it is recognised.
AttentionOptions with_mask(AttentionOptions options, const Tensor& q, const Tensor& k, Here at) {
  if (options.mask.dtype() != DType::boolean)
    refuse(
        "sdpa", {q}, at,
        str("mask is ", options.mask.text(), ", needs bool; floats that are added to the scores are a bias"));
  const auto known = recognised_mask(options.mask, {q.size(0), q.size(2), q.size(1), k.size(1)});
  if (!known || (known->lengths.defined() && options.lengths.defined()) ||
      (known->window && !known->causal && !options.causal))
    return options;
  options.mask = {};
  options.causal = options.causal || known->causal;
  if (known->window)
    options.window = options.window ? std::min(options.window, known->window) : known->window;
  if (known->lengths.defined()) options.lengths = known->lengths;
  return options;
}
// The bias as the scores are: f32, f64 for f64.
Tensor wide_bias(const Tensor& bias, const Tensor& q, const Tensor& k, Here at) {
  const DType wide = rules::statistic(q.dtype());
  if (!has_policy(q) && bias.dtype() != q.dtype() && bias.dtype() != wide)
    refuse("sdpa", {q}, at,
           str("bias is ", bias.text(), ", needs the dtype of q ", q.text(),
               wide == q.dtype() ? "" : " or f32", "; convert it?"));
  return over_scores(rules::wide(bias), q, k, "bias", at);
}
}  // namespace

Tensor sdpa(Tensor q, Tensor k, Tensor v, const AttentionOptions& given, Here at) {
  need("sdpa", {q, k, v}, at);
  const SourceLine line = source_line(*q.builder(), at);
  const std::vector<Tensor> heads = under_policy("sdpa", {q, k, v}, line);
  const bool shaped = q.ndim() == 4 && k.ndim() == 4;  // else the row refuses
  AttentionOptions options = given;
  if (options.mask.defined() && shaped) options = with_mask(std::move(options), q, k, at);
  Attrs attrs{{"causal", options.causal}};
  attrs.set("scale", options.scale ? *options.scale
                                   : 1 / std::sqrt(q.ndim() == 4 ? static_cast<double>(q.size(-1)) : 1));
  std::vector<Tensor> in = heads;
  auto read = [&](const char* name, Tensor x) {
    attrs.set(name, true);
    in.push_back(std::move(x));
  };
  AtLine here(line);
  if (options.window) attrs.set("window", options.window);
  if (options.lengths.defined()) read("lengths", options.lengths);
  if (options.documents.defined()) read("documents", options.documents);
  if (options.mask.defined() && shaped) read("mask", over_scores(options.mask, q, k, "mask", at));
  if (options.bias.defined() && shaped) read("bias", wide_bias(options.bias, heads[0], k, at));
  if (options.dropout != 0) {
    const int64_t stream = stream_of(*q.builder(), "/sdpa.", {ops::sdpa});
    attrs.set("dropout", options.dropout);
    attrs.set("stream", stream);
    for (const char* key : {"rng.seed", "rng.step", "rng.sample"}) in.push_back(scalar(q, key, DType::i64));
  }
  return apply_at(ops::sdpa, in, attrs, line)[0];
}
Tensor sdpa(Tensor q, Tensor k, Tensor v, bool causal, Here at) {
  return sdpa(q, k, v, AttentionOptions{.causal = causal}, at);
}

Tensor causal_mask(Tensor beside, int64_t tokens, Here at) {
  need("causal_mask", {beside}, at);
  InFunction line(beside, at);
  const Shape square{tokens, tokens};
  return iota(beside, square, 1, DType::i32) <= iota(beside, square, 0, DType::i32);
}
Tensor window_mask(Tensor beside, int64_t tokens, int64_t window, Here at) {
  need("window_mask", {beside}, at);
  if (window < 1)
    refuse("window_mask", {beside}, at,
           str("window is ", window, ", needs 1 or more: a token sees itself and the window - 1 before it"));
  InFunction line(beside, at);
  const Shape square{tokens, tokens};
  Tensor token = iota(beside, square, 0, DType::i32), key = iota(beside, square, 1, DType::i32);
  return key <= token && token - key < static_cast<double>(window);
}
Tensor padding_mask(Tensor lengths, int64_t keys, Here at) {
  need("padding_mask", {lengths}, at);
  if (lengths.dtype() != DType::i32 || lengths.ndim() != 1)
    refuse("padding_mask", {lengths}, at,
           str("lengths is ", lengths.text(), ", needs i32 [batch], one for each sequence"));
  InFunction line(lengths, at);
  return iota(lengths, {1, 1, 1, keys}, 3, DType::i32) < reshape(lengths, {lengths.size(0), 1, 1, 1});
}

Tensor rope(Tensor x, const RopeOptions& options, Here at) {
  need("rope", {x}, at);
  Attrs attrs{{"theta", options.theta}, {"inverse", false}};
  std::vector<Tensor> in{x};
  if (options.positions.defined()) {
    attrs.set("positions", true);
    in.push_back(options.positions);
  }
  if (options.interleaved) attrs.set("interleaved", true);
  if (options.dims) attrs.set("dims", options.dims);
  if (options.factor != 1 || options.original) attrs.set("factor", options.factor);
  if (options.original) {
    attrs.set("low", options.low);
    attrs.set("high", options.high);
    attrs.set("original", options.original);
  }
  return apply1(ops::rope, in, attrs, at);
}
Tensor rope(Tensor x, double theta, Here at) { return rope(x, RopeOptions{.theta = theta}, at); }

}  // namespace lockstep
