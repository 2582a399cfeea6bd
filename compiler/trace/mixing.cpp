// The batch dim from value to value.
#include "compiler/trace/mixing.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/ir/walk.h"
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
  // Of samples: random numbers alone so far. Whether they are the samples' own is decided where they meet the
  // batch or weights; where they do not fit it, they are numbers that all samples have alike, as noise on
  // weights is.
  bool noise = false;
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
    std::vector<ValueId> state;
    for (const auto& input : graph_.inputs)
      if (input.kind == InputKind::state) state.push_back(input.value);
    of_state_ = depends_on(graph_, state);
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
    misfit_ = true;
    if (!tried_) report(reported);
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
    if (row.kind == OpKind::random) {
      const Shape& made = shape(node.outputs[0]);
      if (!made.empty() && made[0] % batch_ == 0)
        set(node, {Kind::samples, 0, made[0] / batch_, {}, {}, false, true});
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
    const auto noises =
        std::count_if(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return is_noise(v); });
    if (noises == 0) return of_samples(n, node, row);
    static_cast<size_t>(noises) == samples ? of_noise(n, node, row) : of_samples_and_noise(n, node, row);
  }

  bool is_noise(ValueId v) const { return of_[v].kind == Kind::samples && of_[v].noise; }
  // Whether the samples stay apart in what a node makes; nothing is reported.
  bool stays_apart(NodeId n, const Node& node, const Op& row) {
    tried_ = true, misfit_ = false;
    of_samples(n, node, row);
    tried_ = false;
    return !misfit_;
  }
  // Random numbers and what depends on no sample. Beside weights that differ from row to row the rows are no
  // samples; what a product makes of them and weights is of samples, as what a generator makes.
  void of_noise(NodeId n, const Node& node, const Op& row) {
    bool own = stays_apart(n, node, row), meets = false;
    for (ValueId v : node.outputs) own = own && of_[v].kind == Kind::samples;
    const std::optional<SplitRule> rule = own ? rule_of(node) : std::nullopt;
    for (size_t i = 0; own && i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (of_[v].kind != Kind::alike || !of_state_[v]) continue;
      meets = meets || row.kind != OpKind::pointwise;
      if (!rule) continue;
      const size_t at = rule->in[i].find(rule->out[0].at(of_[node.outputs[0]].dim));
      own = at == std::string::npos || !differs(v, at);
    }
    for (ValueId v : node.outputs) {
      if (own)
        of_[v].noise = !meets;
      else
        of_[v] = {};
    }
  }
  // Beside samples of the batch.
  void of_samples_and_noise(NodeId n, const Node& node, const Op& row) {
    if (stays_apart(n, node, row)) {
      for (ValueId v : node.outputs) of_[v].noise = false;
      return;
    }
    std::vector<std::pair<ValueId, Share>> noises;
    for (ValueId v : node.inputs)
      if (is_noise(v)) noises.emplace_back(v, std::exchange(of_[v], Share{}));
    of_samples(n, node, row);
    for (const auto& [v, was] : noises) of_[v] = was;
  }
  // Whether elements of a value of the state differ along a dim: not where it was broadcast.
  bool differs(ValueId v, size_t dim) {
    if (shape(v)[dim] == 1 || !graph_[v].producer.valid()) return shape(v)[dim] > 1;
    const auto [known, fresh] = differs_.try_emplace({v, dim}, false);
    if (!fresh) return known->second;
    const Node& node = graph_.producer(v);
    bool out = false;
    if (node.op == ops::reshape) {
      const auto from = reshaped({Kind::samples, dim, 1}, shape(v), shape(node.inputs[0]), shape(v)[dim]);
      out = from && differs(node.inputs[0], from->dim);
    } else if (const auto rule = rule_of(node)) {
      const auto o = std::find(node.outputs.begin(), node.outputs.end(), v) - node.outputs.begin();
      for (size_t i = 0; i < node.inputs.size() && !out; ++i) {
        const size_t at = rule->in[i].find(rule->out[static_cast<size_t>(o)].at(dim));
        out = at != std::string::npos && differs(node.inputs[i], at);
      }
    }
    return differs_[{v, dim}] = out;
  }
  std::optional<SplitRule> rule_of(const Node& node) const {
    std::vector<TypedShape> in, out;
    for (ValueId v : node.inputs) in.push_back({graph_[v].dtype, shape(v)});
    for (ValueId v : node.outputs) out.push_back({graph_[v].dtype, shape(v)});
    const Op& row = op_row(node.op);
    const std::string words = row.split ? row.split({node.op, in, node.attrs, node.at}) : "";
    if (words.empty()) return {};
    return parse_split_rule(words, in, out);
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
    const std::optional<SplitRule> found = rule_of(node);
    if (!found) return without_rule(n, node, row);
    const SplitRule& rule = *found;
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

  std::optional<Share> reshaped(const Share& place, const Shape& from, const Shape& to,
                                int64_t many = 0) const {
    const int64_t stride = place.inner * stride_of(from, place.dim);  // between two samples, row-major
    for (size_t d = 0; d < to.size(); ++d) {
      const int64_t step = stride_of(to, d);
      if (step == 0 || stride % step || to[d] == 1) continue;
      const int64_t inner = stride / step;
      if (to[d] % (inner * (many ? many : batch_)) == 0) return Share{Kind::samples, d, inner};
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
  PerValue<bool> of_state_;
  int64_t batch_ = 0;
  bool tried_ = false, misfit_ = false;
  std::map<std::pair<ValueId, size_t>, bool> differs_;
  std::set<std::string> told_;
  std::vector<Mixing> found_;
};
}  // namespace

std::vector<Mixing> mixed_samples(const Graph& traced) { return Samples(traced).find(); }

}  // namespace lockstep::compiler
