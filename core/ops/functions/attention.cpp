// Attention: options become the inputs and attributes of the row.
#include "core/ops/functions/attention.h"

#include <cmath>

#include "core/base/error.h"
#include "core/ops/functions/checks.h"
#include "core/ops/functions/creation.h"
#include "core/ops/functions/operators.h"
#include "core/ops/functions/pointwise.h"
#include "core/ops/functions/shape.h"

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
}  // namespace

Tensor sdpa(Tensor q, Tensor k, Tensor v, const AttentionOptions& options, Here at) {
  need("sdpa", {q, k, v}, at);
  const bool shaped = q.ndim() == 4 && k.ndim() == 4;  // else the row refuses
  Attrs attrs{{"causal", options.causal}};
  attrs.set("scale", options.scale ? *options.scale
                                   : 1 / std::sqrt(q.ndim() == 4 ? static_cast<double>(q.size(-1)) : 1));
  std::vector<Tensor> in{q, k, v};
  auto read = [&](const char* name, Tensor x) {
    attrs.set(name, true);
    in.push_back(std::move(x));
  };
  if (options.window) attrs.set("window", options.window);
  if (options.lengths.defined()) read("lengths", options.lengths);
  if (options.documents.defined()) read("documents", options.documents);
  if (options.mask.defined() && shaped) {
    if (options.mask.dtype() != DType::boolean)
      refuse("sdpa", {q}, at,
             str("mask is ", options.mask.text(),
                 ", needs bool; floats that are added to the scores are a bias"));
    InFunction line(q, at);
    read("mask", over_scores(options.mask, q, k, "mask", at));
  }
  if (options.bias.defined() && shaped) {
    const DType wide = rules::statistic(q.dtype());
    if (options.bias.dtype() != q.dtype() && options.bias.dtype() != wide)
      refuse("sdpa", {q}, at,
             str("bias is ", options.bias.text(), ", needs the dtype of q ", q.text(),
                 wide == q.dtype() ? "" : " or f32", "; convert it?"));
    InFunction line(q, at);
    read("bias", over_scores(rules::wide(options.bias), q, k, "bias", at));
  }
  if (options.dropout != 0) {
    const int64_t stream = stream_of(*q.builder(), "/sdpa.", {ops::sdpa});
    attrs.set("dropout", options.dropout);
    attrs.set("stream", stream);
    for (const char* key : {"rng.seed", "rng.step", "rng.sample"}) in.push_back(scalar(q, key, DType::i64));
  }
  return apply(ops::sdpa, in, attrs, at)[0];
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

Tensor rope(Tensor x, double theta, Here at) {
  return apply1(ops::rope, {x}, {{"theta", theta}, {"inverse", false}}, at);
}

}  // namespace lockstep
