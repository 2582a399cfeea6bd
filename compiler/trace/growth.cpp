// Compares two traces: values with the same id correspond.
#include "compiler/trace/growth.h"

#include <algorithm>
#include <cmath>

namespace lockstep::compiler {

namespace {
int64_t samples_of(const Graph& graph) {
  int64_t out = 0;
  for (const auto& input : graph.inputs)
    if (input.kind == InputKind::batch && !graph[input.value].shape.empty())
      out = graph[input.value].shape[0];
  return out;
}
bool same_step(const Graph& a, const Node& one, const Graph& b, const Node& other) {
  if (one.op != other.op || one.inputs != other.inputs || one.outputs != other.outputs) return false;
  return std::all_of(one.outputs.begin(), one.outputs.end(), [&](ValueId v) {
    return a[v].dtype == b[v].dtype && a[v].shape.size() == b[v].shape.size();
  });
}
}  // namespace

BatchGrowth::BatchGrowth(const Graph& some, const Graph& whole)
    : some_(some), whole_(whole), samples_(samples_of(some)), all_(samples_of(whole)) {
  for (NodeId n : some.node_ids())
    if (n.index() >= whole.nodes.size() || !same_step(some, some.node(n), whole, whole.node(n))) {
      parting_ = n;
      return;
    }
  if (whole.nodes.size() > some.nodes.size() && !some.nodes.empty()) parting_ = NodeId(some.nodes.size() - 1);
}

BatchGrowth::Dims BatchGrowth::dims(ValueId v, size_t* dim) const {
  const Shape &mine = some_[v].shape, &its = whole_[v].shape;
  Dims out = Dims::none;
  for (size_t d = 0; d < mine.size(); ++d) {
    if (mine[d] == its[d]) continue;
    const bool one = out == Dims::none && mine[d] % samples_ == 0 && mine[d] * all_ == its[d] * samples_;
    out = one ? Dims::one : Dims::other;
    if (dim) *dim = d;
  }
  return out;
}

std::optional<double> BatchGrowth::ratio(NodeId n, std::string_view attribute) const {
  const double mine = some_.node(n).attrs.number(attribute), its = whole_.node(n).attrs.number(attribute);
  if (mine == its || (std::isnan(mine) && std::isnan(its))) return 1;
  if (std::isfinite(mine / its) && mine / its > 0) return mine / its;
  return {};
}

}  // namespace lockstep::compiler
