// A mask as inequalities between indices: each value on the way is a sum of indices, a number and lengths.
#include "core/ops/functions/mask_pattern.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/op.h"

namespace lockstep::functions {

namespace {
// index[0] x[0] + index[1] x[1] + ... + number + sign * lengths[x[dim]], x the place in a tensor.
struct Sum {
  std::vector<int64_t> index;  // one per dim of the tensor
  double number = 0;
  ValueId lengths = kNoValue;
  int64_t sign = 0, dim = -1;
};
using Sums = std::vector<Sum>;

// The same at the places of a view: `to[d]` is the dim of the view that dim d becomes, -1 where its index is
// 0.
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

  // A bool as inequalities, all of which hold where it is true: each sum <= 0.
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
  // One number everywhere.
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
  // Of a view: where each dim of its input stands in it, -1 for a dim of size 1. nullopt for other ops, and
  // for a reshape that does more than to add and remove dims of size 1.
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

// One inequality of the four dims of the scores, taken into the pattern; false: it is none that is known.
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
  if (!token && !key) return s.number <= 0;  // it holds everywhere
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
}  // namespace

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

}  // namespace lockstep::functions
