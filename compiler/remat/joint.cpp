// Finds roles of nodes, views, costs and saved values of a joint graph.
#include "compiler/remat/joint.h"

#include <algorithm>
#include <set>

#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
// Flops that take as long as a byte of memory traffic: between a CPU (about 10) and a GPU with tensor cores
// (200).
constexpr double kFlopsPerByte = 32;

double cost_of(const Graph& graph, const Node& node) {
  const OpKind kind = op_row(node.op).kind;
  if (kind == OpKind::view || kind == OpKind::creation) return 0;
  double work = 0;
  for (ValueId v : node.inputs) work += kFlopsPerByte * static_cast<double>(bytes_of(graph[v]));
  for (ValueId v : node.outputs) work += kFlopsPerByte * static_cast<double>(bytes_of(graph[v]));
  const auto out = static_cast<double>(numel(graph[node.outputs[0]].shape));
  if (node.op == ops::linear || node.op == ops::linear_float8)
    work += 2 * out * static_cast<double>(graph[node.inputs[0]].shape.back());
  if (node.op == ops::dot) {
    double inner = 1;
    for (int64_t d : node.attrs.list("lhs_contract"))
      inner *= static_cast<double>(graph[node.inputs[0]].shape[d]);
    work += 2 * out * inner;
  }
  if (node.op == ops::sdpa)
    work += (node.attrs.flag("causal") ? 2 : 4) * out * static_cast<double>(graph[node.inputs[1]].shape[1]);
  return work;
}

// Roots: a slice is a view if all slices of its source together cover the source, like queries, keys and
// values of one product.
PerValue<ValueId> roots_of(const Graph& graph) {
  PerValue<int64_t> sliced(graph.values.size(), 0);
  for (const Node& node : graph.nodes)
    if (node.op == ops::slice) sliced[node.inputs[0]] += bytes_of(graph[node.outputs[0]]);
  PerValue<ValueId> root(graph.values.size());
  for (ValueId v : graph.value_ids()) root[v] = v;
  for (const Node& node : graph.nodes) {
    bool view = node.op == ops::reshape || node.op == ops::permute || node.op == ops::broadcast ||
                (node.op == ops::slice && sliced[node.inputs[0]] >= bytes_of(graph[node.inputs[0]]));
    if (view) root[node.outputs[0]] = root[node.inputs[0]];
  }
  return root;
}
}  // namespace

Joint joint_of(const Graph& graph) {
  Joint out;
  std::vector<ValueId> summed, per_micro_batch;
  PerValue<bool> needed(graph.values.size());  // for a sum over micro-batches
  for (const auto& input : graph.inputs)
    if (input.kind == InputKind::batch || input.kind == InputKind::value || input.name == "rng.sample")
      per_micro_batch.push_back(input.value);
  for (NodeId n : graph.node_ids().backward()) {
    const Node& node = graph.node(n);
    const bool sum = op_row(node.op).kind == OpKind::lanes;
    if (sum) summed.insert(summed.end(), node.outputs.begin(), node.outputs.end());
    if (sum || std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return needed[v]; }))
      for (ValueId v : node.inputs) needed[v] = true;
  }
  out.varying = depends_on(graph, per_micro_batch);
  const auto after_sum = depends_on(graph, summed);
  for (const Node& node : graph.nodes) {
    const OpKind kind = op_row(node.op).kind;
    bool wanted = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return needed[v]; });
    bool after =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return after_sum[v]; });
    JointRole role = kind == OpKind::lanes || !wanted ? JointRole::other
                     : after                          ? JointRole::backward
                                                      : JointRole::forward;
    out.roles.push_back(role);
    out.may_repeat.push_back(role == JointRole::forward && kind != OpKind::collective &&
                             kind != OpKind::update && kind != OpKind::structural);
    out.cost.push_back(cost_of(graph, node));
  }
  out.root = roots_of(graph);
  out.whole.assign(graph.values.size(), kNoValue);
  for (const Node& node : graph.nodes)
    if (node.attrs.flag("pieces"))
      for (ValueId piece : node.inputs) out.whole[piece] = node.outputs[0];
  for (ValueId v : graph.value_ids()) {
    bool buffer = graph[v].producer.valid() && out.varying[v] && out.root[v] == v;
    out.bytes.push_back(buffer ? bytes_of(graph[v]) : 0);
  }
  std::set<ValueId> saved;
  for (NodeId n : graph.node_ids())
    if (out.roles[n] == JointRole::backward)
      for (ValueId v : graph.node(n).inputs) {
        ValueId root = out.root[v];
        NodeId producer = graph[root].producer;
        if (out.varying[root] && producer.valid() && out.roles[producer] == JointRole::forward)
          saved.insert(root);
      }
  out.saved.assign(saved.begin(), saved.end());
  return out;
}

}  // namespace lockstep::compiler
