// The batch dim from value to value.
#include "compiler/trace/mixing.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
// alike: depends on no sample. samples: each element belongs to one. total: a sum over samples, which may be
// scaled. mixed: anything else.
enum class Kind { alike, samples, total, mixed };
struct Share {
  Kind kind = Kind::alike;
  // Of samples: the element at index i of `dim` belongs to sample i / inner % B.
  size_t dim = 0;
  int64_t inner = 1;
  // Of a total: the node that made it; the node by which some samples alone are in it, as in x[:2]; and
  // whether it is a count of floats on its way into sum_counts, which takes it apart.
  NodeId from = {}, part = {};
  bool count = false;
  bool same_place(const Share& other) const { return dim == other.dim && inner == other.inner; }
};

int64_t stride_of(const Shape& shape, size_t dim) {
  int64_t out = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) out *= shape[d];
  return out;
}

class Samples {
 public:
  explicit Samples(const Graph& graph) : graph_(graph), of_(graph.values.size()) {}

  std::vector<Mixing> find() {
    for (const auto& input : graph_.inputs) {
      if (input.kind != InputKind::batch || graph_[input.value].shape.empty()) continue;
      batch_ = graph_[input.value].shape[0];
      of_[input.value] = {Kind::samples};
    }
    if (batch_ < 2) return {};
    for (NodeId n : graph_.node_ids()) visit(n, graph_.node(n));
    return found_;
  }

 private:
  const Shape& shape(ValueId v) const { return graph_[v].shape; }
  void report(NodeId n) {
    const Node& node = graph_.node(n);
    if (told_.insert(node.at.text()).second) found_.push_back({node.op, node.at});
  }
  void mix(const Node& node, NodeId reported) {
    report(reported);
    set(node, {Kind::mixed});
  }
  void set(const Node& node, const Share& value) {
    for (ValueId v : node.outputs) of_[v] = value;
  }
  void set_total(const Node& node, NodeId from, NodeId part, bool count = false) {
    set(node, {Kind::total, 0, 1, from, part, count});
  }

  void visit(NodeId n, const Node& node) {
    const Op& row = op_row(node.op);
    if (row.kind == OpKind::random) {  // numbers by sample
      const Shape& made = shape(node.outputs[0]);
      if (!made.empty() && made[0] % batch_ == 0) set(node, {Kind::samples, 0, made[0] / batch_});
      return;
    }
    size_t totals = 0, samples = 0;
    for (ValueId v : node.inputs) {
      totals += of_[v].kind == Kind::total, samples += of_[v].kind == Kind::samples;
      if (of_[v].kind == Kind::mixed && row.kind != OpKind::lanes && node.op != ops::grad)
        return set(node, {Kind::mixed});
    }
    if (totals + samples == 0) return;
    if (row.kind == OpKind::lanes || node.op == ops::grad || row.kind == OpKind::update) {
      for (ValueId v : node.inputs)  // what is known behind the last micro-batch is alike for all
        if (of_[v].kind == Kind::total && of_[v].part.valid()) report(of_[v].part);
      return;
    }
    if (node.op == ops::vjp) return gradients(n, node);
    if (node.op == ops::custom_gradient) {
      for (size_t o = 0; o < node.outputs.size(); ++o) of_[node.outputs[o]] = of_[node.inputs[o]];
      return;
    }
    if (totals > 0) return of_totals(n, node, row, totals, samples);
    of_samples(n, node, row);
  }

  // A total stays one through what is linear in it.
  void of_totals(NodeId n, const Node& node, const Op& row, size_t totals, size_t samples) {
    NodeId from, part;
    bool count = false;
    for (ValueId v : node.inputs)
      if (of_[v].kind == Kind::total) {
        if (!from.valid()) from = of_[v].from;
        if (!part.valid()) part = of_[v].part;
        count = count || of_[v].count;
      }
    if (node.op == ops::convert) count = count || graph_[node.outputs[0]].dtype == DType::f64;
    if (node.op == ops::stop_gradient || node.op == ops::convert || (count && samples == 0))
      return set_total(node, from, part, count);
    size_t linear = 0;
    for (int i : row.linear)
      linear += static_cast<size_t>(i) < node.inputs.size() && of_[node.inputs[i]].kind == Kind::total;
    if (node.op == ops::concat) linear = totals;  // several sums beside one another
    if (node.op == ops::div) linear = of_[node.inputs[0]].kind == Kind::total;
    const bool joint = row.joint || node.op == ops::concat || node.op == ops::where;
    if (samples > 0 || linear != totals || (totals > 1 && !joint)) return mix(node, from);
    if (node.op == ops::sum && part.valid()) from = n;
    set_total(node, from, part, count);
  }

  void of_samples(NodeId n, const Node& node, const Op& row) {
    const Share first = first_of(node);
    if (node.op == ops::stop_gradient || node.op == ops::dropout || node.op == ops::linear_float8) {
      if (of_[node.inputs[0]].kind == Kind::samples) return set(node, of_[node.inputs[0]]);
      return mix(node, n);
    }
    if (node.op == ops::reshape) {
      if (const auto place = reshaped(first, shape(node.inputs[0]), shape(node.outputs[0])))
        return set(node, *place);
      return mix(node, n);
    }
    if (node.op == ops::take || node.op == ops::embedding || node.op == ops::index_add)
      if (own_rows(node)) return;
    const int64_t period = batch_ * first.inner;
    if (node.op == ops::slice) {
      const int64_t start = node.attrs.list("start")[first.dim], limit = node.attrs.list("limit")[first.dim],
                    step = node.attrs.list("step")[first.dim];
      const bool whole = step == 1 && start % period == 0 && (limit - start) % period == 0 && limit > start;
      return whole ? set(node, first) : set_total(node, n, n);
    }
    if (node.op == ops::pad) {
      const int64_t lo = node.attrs.list("lo")[first.dim], hi = node.attrs.list("hi")[first.dim];
      return lo % period == 0 && hi % period == 0 ? set(node, first) : mix(node, n);
    }
    if (node.op == ops::concat && node.attrs.integer("dim") == static_cast<int64_t>(first.dim)) {
      for (ValueId v : node.inputs)
        if (shape(v)[first.dim] % period || (of_[v].kind == Kind::samples && !of_[v].same_place(first)))
          return mix(node, n);
      return set(node, first);
    }
    by_rule(n, node, row);
  }
  Share first_of(const Node& node) const {
    for (ValueId v : node.inputs)
      if (of_[v].kind == Kind::samples) return of_[v];
    return {};
  }

  // By the letters of the placement rule: the batch dim has one, in all inputs that have samples. Where it
  // vanishes the samples are summed.
  void by_rule(NodeId n, const Node& node, const Op& row) {
    std::vector<TypedShape> in, out;
    for (ValueId v : node.inputs) in.push_back({graph_[v].dtype, shape(v)});
    for (ValueId v : node.outputs) out.push_back({graph_[v].dtype, shape(v)});
    const std::string words = row.split ? row.split({node.op, in, node.attrs, node.at}) : "";
    if (words.empty()) return without_rule(n, node, row);
    const SplitRule rule = parse_split_rule(words, in, out);
    char letter = 0;
    int64_t inner = 1;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Share& value = of_[node.inputs[i]];
      if (value.kind != Kind::samples) continue;
      const char its = rule.in[i].at(value.dim);
      const bool fixed = rule.fixed.find(its) != std::string::npos;
      if (fixed || (letter && (letter != its || inner != value.inner))) return mix(node, n);
      letter = its, inner = value.inner;
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const size_t at = rule.out[o].find(letter);
      of_[node.outputs[o]] =
          at == std::string::npos ? Share{Kind::total, 0, 1, n, {}, false} : Share{Kind::samples, at, inner};
    }
  }
  // Attention with dropout, whose rule is for ranks; ops of one's own that say nothing of their dims.
  void without_rule(NodeId n, const Node& node, const Op& row) {
    const Share first = first_of(node);
    if (node.op != ops::sdpa && !row.own) return mix(node, n);
    for (ValueId v : node.inputs)
      if (of_[v].kind == Kind::samples && !of_[v].same_place(first)) return mix(node, n);
    for (ValueId v : node.outputs) {
      const bool kept = shape(v).size() > first.dim && shape(v)[first.dim] % (batch_ * first.inner) == 0;
      of_[v] = kept ? first : Share{Kind::total, 0, 1, n, {}, false};
    }
  }

  std::optional<Share> reshaped(const Share& place, const Shape& from, const Shape& to) const {
    const int64_t stride = place.inner * stride_of(from, place.dim);  // between two samples, row-major
    for (size_t d = 0; d < to.size(); ++d) {
      const int64_t step = stride_of(to, d);
      if (step == 0 || stride % step || to[d] == 1) continue;
      const int64_t inner = stride / step;
      if (to[d] % (inner * batch_) == 0) return Share{Kind::samples, d, inner};
    }
    return {};
  }

  // Elements of a table [B * inner, ...] that ids choose as gather() and scatter() do: each sample its own.
  bool own_rows(const Node& node) {
    const bool adds = node.op == ops::index_add;
    const ValueId ids = node.inputs[adds ? 0 : 1], rows = node.inputs[adds ? 1 : 0];
    const int64_t many = adds ? node.attrs.integer("rows") : shape(rows).at(0);
    if (many == 0 || many % batch_ || (!adds && of_[rows].kind != Kind::samples)) return false;
    if (!adds && of_[rows].dim != 0) return false;
    const int64_t inner = adds ? many / batch_ : of_[rows].inner;
    const auto place = counted_by_sample(ids, inner);
    if (!place) return false;
    set(node, adds ? Share{Kind::samples, 0, inner} : *place);
    return true;
  }
  // Where ids are inner * (the sample's number) + ...: the place of the samples in them.
  std::optional<Share> counted_by_sample(ValueId v, int64_t inner) const {
    if (!graph_[v].producer.valid()) return {};
    const Node& node = graph_.producer(v);
    if (node.op == ops::convert) return counted_by_sample(node.inputs[0], inner);
    if (node.op == ops::reshape) {
      const auto place = counted_by_sample(node.inputs[0], inner);
      return place ? reshaped(*place, shape(node.inputs[0]), shape(v)) : std::nullopt;
    }
    if (node.op == ops::add) {
      const auto left = counted_by_sample(node.inputs[0], inner);
      return left ? left : counted_by_sample(node.inputs[1], inner);
    }
    if (node.op == ops::iota && inner == 1) return sample_number(node);
    if (node.op != ops::mul) return {};
    for (size_t i = 0; i < 2; ++i) {
      const ValueId number = node.inputs[i], times = node.inputs[1 - i];
      if (!graph_[number].producer.valid() || graph_.producer(number).op != ops::iota) continue;
      if (constant(times) == static_cast<double>(inner)) return sample_number(graph_.producer(number));
    }
    return {};
  }
  std::optional<Share> sample_number(const Node& iota) const {
    const auto dim = static_cast<size_t>(iota.attrs.integer("dim"));
    if (shape(iota.outputs[0])[dim] != batch_) return {};
    return Share{Kind::samples, dim, 1};
  }
  std::optional<double> constant(ValueId v) const {
    while (graph_[v].producer.valid()) {
      const Node& node = graph_.producer(v);
      if (node.op == ops::full) return node.attrs.number("value");
      if (node.op != ops::broadcast && node.op != ops::reshape && node.op != ops::convert) break;
      v = node.inputs[0];
    }
    return {};
  }

  // d(sum of y) / dx: of a sample's own x by sample, of what is alike for all a sum over samples.
  void gradients(NodeId n, const Node& node) {
    const Kind dy = of_[node.inputs[1]].kind;
    if (dy == Kind::total) return mix(node, of_[node.inputs[1]].from);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Share& x = of_[node.inputs[o + 2]];
      of_[node.outputs[o]] = x.kind == Kind::samples ? x
                             : x.kind == Kind::alike ? Share{Kind::total, 0, 1, n, {}, false}
                                                     : Share{};
    }
  }

  const Graph& graph_;
  PerValue<Share> of_;
  int64_t batch_ = 0;
  std::set<std::string> told_;
  std::vector<Mixing> found_;
};
}  // namespace

std::vector<Mixing> mixed_samples(const Graph& traced) { return Samples(traced).find(); }

}  // namespace lockstep::compiler
