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

std::optional<double> Shares::scaled(const Node& node, const Op& row, bool totals) const {
  std::vector<double> in;
  bool all_one = true;
  for (ValueId v : node.inputs) {
    if (of_[v].count && totals && is(v, Kind::total)) return of_[v].ratio;
    in.push_back(of_[v].ratio), all_one = all_one && one(of_[v].ratio);
  }
  const bool joint = row.joint || node.op == ops::concat || node.op == ops::where ||
                     (!totals && (node.op == ops::maximum || node.op == ops::minimum));
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
