// Follows the batch dim from value to value.
#include "compiler/trace/mixing.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "compiler/trace/own_rows.h"
#include "compiler/trace/shares.h"
#include "core/ir/walk.h"
#include "core/ops/count_metric.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
class Samples : private Shares {
 public:
  using Shares::Shares;

  std::vector<Mixing> find() {
    if (batch_ < 2) return {};
    if (const auto other = growth_.parting()) {
      report(*other, Change::place);
      return found_;
    }
    std::vector<ValueId> state;
    for (const auto& input : graph_.inputs) {
      if (input.kind == InputKind::batch) of_[input.value] = {Kind::samples};
      if (input.kind == InputKind::state) state.push_back(input.value);
    }
    of_state_ = depends_on(graph_, state);
    for (NodeId n : graph_.node_ids()) visit(n, graph_.node(n));
    for (const auto& output : graph_.outputs)  // a count is in proportion to its loss
      if (output.name != count_metric(0) && !is_later_count(output.name)) tell_size(output.value);
    return found_;
  }

 private:
  void report(NodeId n, Change change) {
    const Node& node = graph_.node(n);
    if (told_.insert(node.at.text()).second) found_.push_back({node.op, node.at, change});
  }
  // Records a change by micro-batches in a node, reported for the node that causes it.
  void mix(const Node& node, NodeId reported, Change change = Change::samples) {
    const bool made = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      return sampled(v) || is(v, Kind::total) || is(v, Kind::mixed);
    });
    if (made || change != Change::samples) report(reported, change);
    set(node, {.kind = made ? Kind::mixed : Kind::place, .from = reported});
  }
  void set(const Node& node, const Share& value) {
    for (ValueId v : node.outputs) of_[v] = value;
  }
  void set_total(const Node& node, NodeId from, NodeId part, bool count = false) {
    set(node, {.kind = Kind::total, .from = from, .part = part, .count = count});
  }
  // A value of the whole step must be in proportion to the batch, or is reported.
  void tell_size(ValueId v) {
    const Share& value = of_[v];
    if (value.kind == Kind::place) report(value.from, Change::place);
    if (value.kind == Kind::alike && !one(value.ratio)) report(value.sized, Change::size);
  }

  void visit(NodeId n, const Node& node) {
    const Op& row = op_row(node.op);
    if (row.kind == OpKind::creation || row.kind == OpKind::random) return made(n, node, row);
    if (row.kind == OpKind::lanes || row.kind == OpKind::update || node.op == ops::grad)
      return of_step(n, node);
    if (node.op == ops::custom_gradient) {
      for (size_t o = 0; o < node.outputs.size(); ++o) of_[node.outputs[o]] = of_[node.inputs[o]];
      return;
    }
    const auto reads = [&](auto test) { return std::any_of(node.inputs.begin(), node.inputs.end(), test); };
    if (reads([&](ValueId v) { return is(v, Kind::mixed); })) return set(node, {.kind = Kind::mixed});
    const bool totals = reads([&](ValueId v) { return is(v, Kind::total); });
    const bool places = reads([&](ValueId v) { return is(v, Kind::place); });
    if (places && !totals && !reads([&](ValueId v) { return sampled(v); })) return of_places(node);
    if (!totals && !reads([&](ValueId v) { return is(v, Kind::samples); })) return of_none(n, node, row);
    const NodeId place = place_in(n, node);
    if (place.valid() && !may_carry(node, row, totals))
      return takes_rows(node) && own_rows(node) ? void() : mix(node, place, Change::place);
    if (node.op == ops::vjp)
      gradients(n, node);
    else
      totals ? of_totals(n, node, row) : of_samples(n, node, row);
    grow(n, node, row, totals, place);
  }
  // The node at which a place entered an input: this one, if the input is a place.
  NodeId place_in(NodeId n, const Node& node) const {
    for (ValueId v : node.inputs)
      if (is(v, Kind::place) || of_[v].place.valid()) return is(v, Kind::place) ? n : of_[v].place;
    return {};
  }
  // A node that reads a place, and neither a sample nor a total.
  void of_places(const Node& node) {
    if (node.op == ops::remainder)
      if (const auto own = numbers_within(graph_, node.inputs[0], node.inputs[1], batch_))
        return set(node, *own);
    if (takes_rows(node) && own_rows(node)) return;
    for (ValueId v : node.inputs)
      if (is(v, Kind::place)) return set(node, of_[v]);
  }
  // Sets how the results of a node that reads samples or totals grow.
  void grow(NodeId n, const Node& node, const Op& row, bool totals, NodeId place) {
    const auto kept = scaled(node, row, totals);
    const NodeId sized = kept && one(*kept) ? NodeId() : sized_of(n, node);
    const bool reads = !growth_.same_attributes(n) && row.kind != OpKind::view && row.kind != OpKind::index;
    const bool ids = !kept && may_carry(node, row, totals) && is(node.outputs.at(0), Kind::samples);
    if (ids && !place.valid()) place = sized;  // strides between places depend on the size
    if (((!kept && !ids) || reads) && !is(node.outputs.at(0), Kind::mixed))
      return mix(node, sized.valid() ? sized : n, Change::size);
    for (ValueId v : node.outputs) {
      of_[v].ratio = kept.value_or(1), of_[v].sized = kept ? sized : NodeId();
      if (place.valid() && is(v, Kind::samples)) of_[v].place = place;
    }
  }

  // full, iota and random numbers: they belong to samples if their size depends on the batch.
  void made(NodeId n, const Node& node, const Op& row) {
    const ValueId v = node.outputs[0];
    size_t dim = 0;
    const auto dims = growth_.dims(v, &dim);
    const bool along = node.op == ops::iota && dims == BatchGrowth::Dims::one &&
                       node.attrs.integer("dim") == static_cast<int64_t>(dim);
    if (dims == BatchGrowth::Dims::other || along) return set(node, {.kind = Kind::place, .from = n});
    Share out;
    if (dims == BatchGrowth::Dims::one)
      out = {.kind = Kind::samples, .dim = dim, .inner = shape(v)[dim] / batch_};
    out.same = dims == BatchGrowth::Dims::one && row.kind == OpKind::creation;
    if (row.kind == OpKind::random && dims == BatchGrowth::Dims::none) out.drawn = n;
    if (node.op == ops::full) {
      const auto ratio = growth_.ratio(n, "value");
      if (!ratio) return set(node, {.kind = Kind::place, .from = n});
      out.zero = node.attrs.number("value") == 0;
      out.ratio = *ratio, out.sized = one(*ratio) ? NodeId() : n;
    }
    set(node, out);
  }

  // A node whose inputs depend on no sample.
  void of_none(NodeId n, const Node& node, const Op& row) {
    if (first_micro_batch(node)) return set_total(node, n, {});
    Share out;
    for (ValueId v : node.inputs) {
      if (of_[v].count && !out.count) out = of_[v];
      if (of_[v].drawn.valid()) out.drawn = of_[v].drawn;
    }
    if (node.op == ops::dropout) out.drawn = n;
    if (of_state_[node.outputs.at(0)]) out.drawn = {};  // noise on weights
    const DType made = graph_[node.outputs[0]].dtype;
    const bool wide = made == DType::f64 && shape(node.outputs[0]).empty(), counted = out.count;
    if (node.op == ops::convert) {
      if (wide && !counted) out.from = graph_[node.inputs[0]].producer;
      out.count = wide || (counted && !is_float(made));
      out.zero = of_[node.inputs[0]].zero;
    }
    if (!counted || !out.count) {
      const auto ratio = scaled(node, row, false);
      const bool reads = !growth_.same_attributes(n) && node.op != ops::broadcast && node.op != ops::reshape;
      if (!ratio || reads) return set(node, {.kind = Kind::place, .from = n});
      out.ratio = *ratio, out.sized = one(*ratio) ? NodeId() : sized_of(n, node);
    }
    for (ValueId v : node.outputs) {
      const auto dims = growth_.dims(v, &out.dim);
      if (dims == BatchGrowth::Dims::none) {
        of_[v] = out;
        continue;
      }
      if (out.drawn.valid()) report(out.drawn, Change::draw);
      if (dims == BatchGrowth::Dims::other || node.op != ops::broadcast) {
        of_[v] = {.kind = Kind::place, .from = n};
        continue;
      }
      of_[v] = out, of_[v].kind = Kind::samples, of_[v].same = true, of_[v].drawn = {};
      of_[v].inner = shape(v)[out.dim] / batch_;
    }
  }

  // Sums over micro-batches, gradients and updates: values known after the last micro-batch.
  void of_step(NodeId n, const Node& node) {
    for (ValueId v : node.inputs)
      if (is(v, Kind::total) && of_[v].part.valid()) report(of_[v].part, Change::samples);
    if (op_row(node.op).kind == OpKind::update)
      for (ValueId v : node.inputs) tell_size(v);
    if (node.op == ops::grad) {
      const int64_t terms = node.attrs.has("terms") ? node.attrs.integer("terms") : 1;
      for (int64_t t = 0; t < terms; ++t) {
        const ValueId sum = node.inputs[2 * t], count = node.inputs[2 * t + 1];
        if (known_to_mix(sum) || known_to_mix(count)) continue;
        for (ValueId v : {sum, count})
          if (is(v, Kind::place)) report(of_[v].from, Change::place);
        if (!one(summed(sum) / summed(count)))
          report(reason(sum).valid() ? reason(sum) : reason(count), Change::size);
      }
    }
    if (node.op != ops::sum_lanes) return;
    const ValueId v = node.inputs[0];
    if (known_to_mix(v)) return set(node, {.kind = Kind::mixed});
    if (is(v, Kind::place)) report(of_[v].from, Change::place);
    Share out{.count = of_[v].count, .ratio = summed(v)};
    if (!one(out.ratio)) out.sized = reason(v).valid() ? reason(v) : n;
    if (is(v, Kind::alike) || is(v, Kind::total)) set(node, out);
  }
  bool known_to_mix(ValueId v) const { return is(v, Kind::mixed) || of_[v].part.valid(); }

  // Whether places may propagate next to samples: through integers, which may become ids, and moves.
  bool may_carry(const Node& node, const Op& row, bool totals) const {
    const DType made = graph_[node.outputs[0]].dtype;
    const bool ids = row.kind == OpKind::pointwise && !is_float(made) && made != DType::boolean;
    return !totals && (row.kind == OpKind::view || ids);
  }
  // A total stays a total through ops that are linear in it.
  void of_totals(NodeId n, const Node& node, const Op& row) {
    NodeId from, part, drawn;
    bool count = false, samples = false;
    for (ValueId v : node.inputs) {
      samples = samples || sampled(v);
      if (of_[v].drawn.valid()) drawn = of_[v].drawn;
      if (!is(v, Kind::total)) continue;
      if (!from.valid()) from = of_[v].from;
      if (!part.valid()) part = of_[v].part;
      count = count || of_[v].count;
    }
    if (node.op == ops::convert) count = count || graph_[node.outputs[0]].dtype == DType::f64;
    if (node.op == ops::stop_gradient || node.op == ops::convert || (count && !samples))
      return set_total(node, from, part, count);
    if (drawn.valid() && row.kind == OpKind::pointwise) return mix(node, drawn, Change::draw);
    // A value that only the first micro-batch contributes.
    if (node.op == ops::where && is(node.inputs[0], Kind::total) && is(node.inputs[1], Kind::alike) &&
        of_[node.inputs[2]].zero)
      return set_total(node, n, part);
    if (samples || !linear_in_totals(node, row)) return mix(node, from);
    if (node.op == ops::sum && part.valid()) from = n;
    set_total(node, from, part, count);
  }

  void of_samples(NodeId n, const Node& node, const Op& row) {
    const Share first = first_of(node);
    if (node.op == ops::stop_gradient || node.op == ops::dropout || node.op == ops::linear_float8) {
      if (!is(node.inputs[0], Kind::samples)) return mix(node, n);
      set(node, of_[node.inputs[0]]);
      if (node.op == ops::dropout) of_[node.outputs[0]].same = false;
      return;
    }
    if (first.same && (node.op == ops::reshape || node.op == ops::slice)) return of_same(n, node);
    if (node.op == ops::reshape) {
      if (const auto place = reshaped(first, shape(node.inputs[0]), shape(node.outputs[0]), batch_))
        return set(node, *place);
      return mix(node, n);
    }
    if (takes_rows(node) && own_rows(node)) return;
    if (node.op == ops::slice || node.op == ops::pad) {
      if (growth_.dims(node.outputs[0]) == BatchGrowth::Dims::other &&
          growth_.dims(node.inputs[0]) == BatchGrowth::Dims::one)
        return mix(node, n, Change::place);
      return node.op == ops::slice ? sliced(n, node, first) : padded(n, node, first);
    }
    if (node.op == ops::concat && node.attrs.integer("dim") == static_cast<int64_t>(first.dim))
      return joined(n, node, first);
    by_rule(n, node, row);
  }
  void sliced(NodeId n, const Node& node, const Share& first) {
    const int64_t period = batch_ * first.inner;
    const int64_t start = node.attrs.list("start")[first.dim], limit = node.attrs.list("limit")[first.dim],
                  step = node.attrs.list("step")[first.dim];
    const bool whole = step == 1 && start % period == 0 && (limit - start) % period == 0 && limit > start;
    whole ? set(node, first) : set_total(node, n, n);
  }
  void padded(NodeId n, const Node& node, const Share& first) {
    const int64_t period = batch_ * first.inner;
    const int64_t lo = node.attrs.list("lo")[first.dim], hi = node.attrs.list("hi")[first.dim];
    if (lo % period || hi % period) return mix(node, n);
    set(node, first);
    of_[node.outputs[0]].same = first.same && lo == 0 && hi == 0;
  }
  void joined(NodeId n, const Node& node, const Share& first) {
    const int64_t period = batch_ * first.inner;
    for (ValueId v : node.inputs)
      if (shape(v)[first.dim] % period ||
          (is(v, Kind::samples) && (of_[v].dim != first.dim || (sampled(v) && of_[v].inner != first.inner))))
        return mix(node, n);
    set(node, first);
    of_[node.outputs[0]].same = false;
  }
  // Elements that are equal for all samples, moved.
  void of_same(NodeId n, const Node& node) {
    Share out = of_[node.inputs[0]];
    const ValueId v = node.outputs[0];
    const auto dims = growth_.dims(v, &out.dim);
    if (dims == BatchGrowth::Dims::none) return set(node, {.zero = out.zero});
    out.inner = shape(v)[out.dim] / batch_;
    if (const auto place = node.op == ops::reshape
                               ? reshaped(of_[node.inputs[0]], shape(node.inputs[0]), shape(v), batch_)
                               : std::nullopt;
        place && shape(v)[place->dim] != shape(node.inputs[0])[of_[node.inputs[0]].dim])
      out = *place;
    if (dims == BatchGrowth::Dims::other) return mix(node, n);
    set(node, out);
  }
  // By the letters of the placement rule: the batch dim has one letter, in all inputs with samples. If that
  // letter vanishes, the samples are summed.
  void by_rule(NodeId n, const Node& node, const Op& row) {
    const std::optional<SplitRule> found = rule_of(node);
    if (!found) return without_rule(n, node, row);
    const SplitRule& rule = *found;
    const Share first = first_of(node);
    char letter = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Share& value = of_[node.inputs[i]];
      if (value.kind != Kind::samples) continue;
      const char its = rule.in[i].at(value.dim);
      const bool fixed = rule.fixed.find(its) != std::string::npos;
      if (fixed || (letter && letter != its) || (!value.same && value.inner != first.inner))
        return mix(node, n);
      letter = its;
    }
    const bool zero = node.op == ops::broadcast && of_[node.inputs[0]].zero;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const size_t at = rule.out[o].find(letter);
      of_[node.outputs[o]] =
          at == std::string::npos
              ? Share{.kind = Kind::total, .from = n}
              : Share{
                    .kind = Kind::samples, .dim = at, .inner = first.inner, .same = first.same, .zero = zero};
    }
  }
  // Attention with dropout, whose rule is only for ranks, and registered ops without a rule for their dims.
  void without_rule(NodeId n, const Node& node, const Op& row) {
    const Share first = first_of(node);
    if (node.op != ops::sdpa && !row.own) return mix(node, n);
    for (ValueId v : node.inputs)
      if (sampled(v) && (of_[v].dim != first.dim || of_[v].inner != first.inner)) return mix(node, n);
    for (ValueId v : node.outputs) {
      const bool kept = shape(v).size() > first.dim && shape(v)[first.dim] % (batch_ * first.inner) == 0;
      of_[v] = kept ? Share{.kind = Kind::samples, .dim = first.dim, .inner = first.inner}
                    : Share{.kind = Kind::total, .from = n};
    }
  }

  static bool takes_rows(const Node& node) {
    return node.op == ops::take || node.op == ops::embedding || node.op == ops::index_add;
  }
  // Elements of a table [B * inner, ...] selected by ids as gather() and scatter() do: each sample selects
  // its own.
  bool own_rows(const Node& node) {
    const bool adds = node.op == ops::index_add;
    const ValueId ids = node.inputs[adds ? 0 : 1], rows = node.inputs[adds ? 1 : 0];
    const int64_t many = adds ? node.attrs.integer("rows") : shape(rows).at(0);
    if (many == 0 || many % batch_ || (!adds && !is(rows, Kind::samples))) return false;
    if (!adds && of_[rows].dim != 0) return false;
    const int64_t inner = adds ? many / batch_ : of_[rows].inner;
    const auto place = counted_by_sample(graph_, ids, inner, batch_);
    if (!place) return false;
    set(node, adds ? Share{.kind = Kind::samples, .inner = inner} : *place);
    return true;
  }

  // d(sum of y) / dx: per sample for a sample's own x; a sum over samples for values that are equal for all.
  void gradients(NodeId n, const Node& node) {
    const Kind dy = of_[node.inputs[1]].kind;
    if (dy == Kind::total) return mix(node, of_[node.inputs[1]].from);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Share& x = of_[node.inputs[o + 2]];
      Share out;
      if (x.kind == Kind::samples) out = {.kind = Kind::samples, .dim = x.dim, .inner = x.inner};
      if (x.kind == Kind::alike) out = {.kind = Kind::total, .from = n};
      of_[node.outputs[o]] = out;
    }
  }

  PerValue<bool> of_state_;
  std::set<std::string> told_;
  std::vector<Mixing> found_;
};
}  // namespace

std::vector<Mixing> mixed_samples(const Graph& some, const Graph& whole) {
  return Samples(some, whole).find();
}

std::string_view verb(Change change) {
  switch (change) {
    case Change::samples:
      return "mixes the samples of";
    case Change::place:
      return "reads places in, or the size of,";
    case Change::size:
      return "does not grow in proportion to";
    case Change::draw:
      return "is drawn once for";
  }
  return "";
}

}  // namespace lockstep::compiler
