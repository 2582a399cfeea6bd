// Attention: recognises masks, and turns options into inputs and attributes of the sdpa row.
#include "core/functions/attention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/functions/creation.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"
#include "core/ops/op.h"
#include "core/ops/precision.h"
#include "core/ops/tensor.h"

namespace lockstep {

// Recognition reads the nodes of a mask backwards and expresses it as inequalities of the form sum <= 0. Each
// integer value on the way is a linear combination of indices, a number and lengths.
namespace functions {
namespace {
// The meaning of a mask that follows from indices and lengths.
struct MaskPattern {
  bool causal = false;  // key <= token
  int64_t window = 0;   // key > token - window; 0: none
  Tensor lengths;       // i32 [B]: key < length; empty: none
};

// index[0] x[0] + index[1] x[1] + ... + number + sign * lengths[x[dim]], where x is the index of an element.
struct Sum {
  std::vector<int64_t> index;  // one per dim of the tensor
  double number = 0;
  ValueId lengths = kNoValue;
  int64_t sign = 0, dim = -1;
};
using Sums = std::vector<Sum>;

// The same sum for a view: `to[d]` is the dim of the view that dim d becomes, -1 if its index is always 0.
Sum moved(const Sum& sum, const std::vector<int64_t>& to, size_t rank) {
  Sum out = sum;
  out.index.assign(rank, 0);
  for (size_t d = 0; d < to.size(); ++d)
    if (to[d] >= 0) out.index[to[d]] += sum.index[d];
  if (sum.dim >= 0) out.dim = to[sum.dim];
  return out;
}
std::optional<Sum> joined(const Sum& a, const Sum& b, int64_t sign) {
  if (a.lengths.valid() && b.lengths.valid()) return std::nullopt;
  Sum out = a;
  for (size_t d = 0; d < out.index.size(); ++d) out.index[d] += sign * b.index[d];
  out.number += static_cast<double>(sign) * b.number;
  if (b.lengths.valid()) out.lengths = b.lengths, out.sign = sign * b.sign, out.dim = b.dim;
  return out;
}

class Reader {
 public:
  explicit Reader(const Graph& graph) : graph_(graph) {}

  // A bool as inequalities: it is true where every sum is <= 0.
  std::optional<Sums> conditions(ValueId v) const {
    const Node* node = maker(v);
    if (!node) return std::nullopt;
    if (node->op == ops::and_ && graph_[v].dtype == DType::boolean)
      return both(conditions(node->inputs[0]), conditions(node->inputs[1]));
    if (node->op == ops::le || node->op == ops::lt)
      return compared(node->inputs[0], node->inputs[1], node->op == ops::lt);
    if (node->op == ops::not_) return negated(node->inputs[0]);
    if (node->op == ops::convert) return conditions(node->inputs[0]);
    if (node->op == ops::ne && number(node->inputs[1]) == 0.0) return conditions(node->inputs[0]);
    if (node->op == ops::where) {  // tril of ones
      const auto yes = number(node->inputs[1]), no = number(node->inputs[2]);
      if (yes && no && *yes != 0 && *no == 0) return conditions(node->inputs[0]);
      return std::nullopt;
    }
    if (const auto to = view(*node)) {
      auto inner = conditions(node->inputs[0]);
      if (!inner) return std::nullopt;
      for (Sum& sum : *inner) sum = moved(sum, *to, graph_[v].shape.size());
      return inner;
    }
    return std::nullopt;
  }

 private:
  const Node* maker(ValueId v) const { return graph_[v].producer.valid() ? &graph_.producer(v) : nullptr; }
  static std::optional<Sums> both(std::optional<Sums> a, const std::optional<Sums>& b) {
    if (!a || !b) return std::nullopt;
    a->insert(a->end(), b->begin(), b->end());
    return a;
  }
  // The value of a constant tensor.
  std::optional<double> number(ValueId v) const {
    const Node* node = maker(v);
    if (!node) return std::nullopt;
    if (node->op == ops::full) return node->attrs.number("value");
    if (node->op == ops::convert || view(*node)) return number(node->inputs[0]);
    return std::nullopt;
  }
  // a <= b, or a < b of whole numbers.
  std::optional<Sums> compared(ValueId a, ValueId b, bool less) const {
    const auto left = sum(a), right = sum(b);
    if (!left || !right) return std::nullopt;
    auto out = joined(*left, *right, -1);
    if (!out || out->number != std::floor(out->number)) return std::nullopt;
    if (less) out->number += 1;
    return Sums{*out};
  }
  // !(a <= b) is b < a.
  std::optional<Sums> negated(ValueId v) const {
    const Node* node = maker(v);
    if (!node || (node->op != ops::le && node->op != ops::lt)) return std::nullopt;
    return compared(node->inputs[1], node->inputs[0], node->op == ops::le);
  }
  std::optional<Sum> sum(ValueId v) const {
    const Value& value = graph_[v];
    const Node* node = maker(v);
    if (value.dtype != DType::i32 && value.dtype != DType::i64) return std::nullopt;
    Sum out;
    out.index.assign(value.shape.size(), 0);
    if (node && node->op == ops::iota) {
      out.index[node->attrs.integer("dim")] = 1;
      return out;
    }
    if (node && node->op == ops::full) {
      out.number = node->attrs.number("value");
      return out;
    }
    if (node && (node->op == ops::add || node->op == ops::sub)) {
      const auto a = sum(node->inputs[0]), b = sum(node->inputs[1]);
      return a && b ? joined(*a, *b, node->op == ops::add ? 1 : -1) : std::nullopt;
    }
    if (node && node->op == ops::mul && number(node->inputs[1]) == 1.0) return sum(node->inputs[0]);
    if (node && node->op == ops::convert) return sum(node->inputs[0]);
    if (node) {
      if (const auto to = view(*node)) {
        const auto inner = sum(node->inputs[0]);
        if (inner) return moved(*inner, *to, value.shape.size());
      }
    }
    if (value.dtype != DType::i32 || value.shape.size() != 1) return std::nullopt;
    out.lengths = v, out.sign = 1, out.dim = 0;
    return out;
  }
  // For a view: the dim that each dim of its input becomes, -1 for a dim of size 1. nullopt for other ops,
  // and for a reshape that does more than add and remove dims of size 1.
  std::optional<std::vector<int64_t>> view(const Node& node) const {
    if (node.op != ops::reshape && node.op != ops::permute && node.op != ops::broadcast) return std::nullopt;
    const Shape &from = graph_[node.inputs[0]].shape, &to = graph_[node.outputs[0]].shape;
    std::vector<int64_t> places(from.size(), -1);
    if (node.op == ops::reshape) {
      size_t next = 0;
      for (size_t d = 0; d < from.size(); ++d) {
        if (from[d] == 1) continue;
        while (next < to.size() && to[next] == 1) ++next;
        if (next == to.size() || to[next] != from[d]) return std::nullopt;
        places[d] = static_cast<int64_t>(next++);
      }
      return places;
    }
    const auto& order = node.attrs.list(node.op == ops::permute ? "order" : "dims");
    for (size_t d = 0; d < order.size(); ++d) {
      if (node.op == ops::permute)
        places[order[d]] = static_cast<int64_t>(d);
      else if (from[d] != 1)
        places[d] = order[d];
    }
    return places;
  }

  const Graph& graph_;
};

// Adds one inequality over the four dims of the scores to the pattern; returns false for an unknown form.
bool take(const Sum& s, const Shape& scores, const std::shared_ptr<Builder>& builder, MaskPattern& out) {
  if (s.index[0] || s.index[1]) return false;
  const int64_t token = scores[2] == 1 ? 0 : s.index[2], key = scores[3] == 1 ? 0 : s.index[3];
  if (s.lengths.valid()) {
    const Tensor lengths(builder, s.lengths);
    const bool by_batch = s.dim == 0 || (s.dim < 0 && scores[0] == 1);
    if (s.sign != -1 || !by_batch || lengths.size(0) != scores[0] || token || s.index[3] != 1 ||
        s.number != 1)
      return false;
    if (out.lengths.defined() && out.lengths.id() != s.lengths) return false;
    out.lengths = lengths;
    return true;
  }
  if (!token && !key) return s.number <= 0;  // a constant: true everywhere, or nowhere
  if (scores[2] != scores[3]) return false;
  if (token == -1 && key == 1 && s.number == 0) {
    out.causal = true;
    return true;
  }
  if (token == 1 && key == -1 && s.number <= 0) {
    const int64_t window = 1 - static_cast<int64_t>(s.number);
    out.window = out.window ? std::min(out.window, window) : window;
    return true;
  }
  return false;
}

// The equivalent pattern of the mask, whose dims are matched from the last with `scores` [batch, heads,
// tokens, keys]; nullopt if there is none. It recognises comparisons (< <= > >=, !) of sums and differences
// of indices, numbers and an i32 tensor [batch], joined by &&. It also recognises triangles of ones (tril,
// triu) and views of all these.
std::optional<MaskPattern> recognised_mask(const Tensor& mask, const Shape& scores) {
  const Shape shape = mask.shape();
  if (shape.size() > 4) return std::nullopt;
  auto conditions = Reader(mask.builder()->graph).conditions(mask.id());
  if (!conditions) return std::nullopt;
  std::vector<int64_t> last;
  for (size_t d = 0; d < shape.size(); ++d) {
    const size_t place = d + 4 - shape.size();
    if (shape[d] != 1 && shape[d] != scores[place]) return std::nullopt;
    last.push_back(shape[d] == 1 ? -1 : static_cast<int64_t>(place));
  }
  MaskPattern out;
  for (const Sum& sum : *conditions)
    if (!take(moved(sum, last, 4), scores, mask.builder(), out)) return std::nullopt;
  return out;
}
}  // namespace
}  // namespace functions

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
// The options, in which a recognised mask is replaced by causal, window and lengths.
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
// The bias in the dtype of the scores: f32, f64 for f64.
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
  if (const DType scores = rules::statistic(heads[0].dtype()); options.scale && is_float(scores))
    (void)held("sdpa", q, *options.scale, scores, at);
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
