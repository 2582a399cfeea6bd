// Arithmetic of shares (see shares.h).
#include "compiler/trace/shares.h"

#include <cmath>

namespace lockstep::compiler {

bool Shares::one(double ratio) { return std::abs(ratio - 1) < 1e-6; }

Share Shares::first_of(const Node& node) const {
  Share out;
  for (ValueId v : node.inputs)
    if (is(v, Kind::samples) && (out.kind != Kind::samples || (out.same && !of_[v].same))) out = of_[v];
  return {.kind = out.kind, .dim = out.dim, .inner = out.inner, .same = out.same};
}

std::optional<SplitRule> Shares::rule_of(const Node& node) const {
  std::vector<TypedShape> in, out;
  for (ValueId v : node.inputs) in.push_back({graph_[v].dtype, shape(v)});
  for (ValueId v : node.outputs) out.push_back({graph_[v].dtype, shape(v)});
  const Op& row = op_row(node.op);
  const std::string words = row.split ? row.split({node.op, in, node.attrs, node.at}) : "";
  if (words.empty()) return {};
  return parse_split_rule(words, in, out);
}

NodeId Shares::reason(ValueId v) const {
  if (of_[v].count && of_[v].from.valid() && is(v, Kind::alike)) return of_[v].from;
  return of_[v].sized.valid() ? of_[v].sized : is(v, Kind::total) ? NodeId() : graph_[v].producer;
}

NodeId Shares::sized_of(NodeId n, const Node& node) const {
  for (ValueId v : node.inputs)
    if (of_[v].sized.valid()) return of_[v].sized;
  return n;
}

bool Shares::is_joint(const Node& node, const Op& row) {
  return row.joint || node.op == ops::concat || node.op == ops::where;
}

bool Shares::linear_in_totals(const Node& node, const Op& row) const {
  const auto total = [&](size_t i) { return i < node.inputs.size() && is(node.inputs[i], Kind::total); };
  size_t totals = 0, linear = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) totals += total(i);
  for (int i : row.linear) linear += total(static_cast<size_t>(i));
  if (node.op == ops::concat) linear = totals;  // several sums next to one another
  if (node.op == ops::div) linear = total(0);
  return linear == totals && (totals < 2 || is_joint(node, row));
}

bool Shares::first_micro_batch(const Node& node) const {
  if (node.op != ops::eq) return false;
  const ValueId sample = graph_.find_input("rng.sample");
  return sample != kNoValue && ((node.inputs[0] == sample && of_[node.inputs[1]].zero) ||
                                (node.inputs[1] == sample && of_[node.inputs[0]].zero));
}

std::optional<double> Shares::scaled(const Node& node, const Op& row, bool totals) const {
  std::vector<double> in;
  bool all_one = true;
  for (ValueId v : node.inputs) {
    if (of_[v].count && totals && is(v, Kind::total)) return of_[v].ratio;
    in.push_back(of_[v].ratio), all_one = all_one && one(of_[v].ratio);
  }
  const bool joint = is_joint(node, row) || (!totals && (node.op == ops::maximum || node.op == ops::minimum));
  // Only in the first micro-batch.
  if (node.op == ops::where && is(node.inputs[0], Kind::total)) return in[1];
  if (all_one && !(joint && totals)) return 1;
  if (node.op == ops::div) return in[0] / in[1];
  if (node.op == ops::vjp) return in[0] * in[1];
  if (node.op == ops::sqrt) return std::sqrt(in[0]);
  if (node.op == ops::stop_gradient || node.op == ops::abs || node.op == ops::max || node.op == ops::min)
    return in[0];
  if (node.op == ops::convert)
    return is_float(graph_[node.outputs[0]].dtype) ? std::optional(in[0]) : std::nullopt;
  return scaled_by_terms(node, row, in, joint, totals);
}

std::optional<double> Shares::scaled_by_terms(const Node& node, const Op& row, const std::vector<double>& in,
                                              bool joint, bool totals) const {
  std::vector<bool> linear(in.size(), joint && node.op != ops::where);
  for (int i : row.linear)
    if (static_cast<size_t>(i) < in.size()) linear[i] = true;
  std::optional<double> out;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!linear[i] && !one(in[i])) return {};
    if (!linear[i] || (joint && of_[node.inputs[i]].zero)) continue;
    const double its = joint && totals ? summed(node.inputs[i]) : in[i];
    if (joint && out && !one(its / *out)) return {};
    out = joint ? its : out.value_or(1) * its;
  }
  return out.value_or(1);
}

}  // namespace lockstep::compiler
