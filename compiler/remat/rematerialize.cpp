// Places copies of forward nodes before their backward readers, behind barriers.
#include "compiler/remat/rematerialize.h"

#include <algorithm>
#include <set>

#include "compiler/remat/joint.h"
#include "core/base/error.h"
#include "core/ir/walk.h"

namespace lockstep::compiler {

namespace {
class Repeater {
 public:
  Repeater(const Graph& graph, const std::vector<ValueId>& given_up)
      : graph_(graph),
        joint_(joint_of(graph)),
        kept_(graph.values.size()),
        again_(graph.values.size(), kNoValue),
        rewriter_(graph) {
    for (ValueId v : joint_.saved) kept_[v] = true;
    for (ValueId v : given_up) {
      LS_CHECK(kept_[v], "value %", v, " is not saved for the backward pass");
      kept_[v] = false;
    }
    find_barriers();
  }

  Graph run() {
    for (NodeId n : graph_.node_ids()) {
      const Node& node = graph_.node(n);
      if (joint_.roles[n] != JointRole::backward) {
        rewriter_.copy(node);
        continue;
      }
      std::vector<ValueId> inputs;
      for (ValueId v : node.inputs) inputs.push_back(for_backward(v));
      auto made = append(node, inputs);
      for (size_t i = 0; i < made.size(); ++i) rewriter_.map(node.outputs[i], made[i]);
    }
    return prune(rewriter_.finish());
  }

 private:
  // Values that need no recomputation: inputs, values that do not vary, kept values, and pieces inside kept
  // values.
  bool is_there(ValueId v) const {
    const ValueId whole = joint_.whole[v];
    return !graph_[v].producer.valid() || !joint_.varying[v] || kept_[v] ||
           (whole != kNoValue && kept_[whole]);
  }
  bool of_forward(ValueId v) const {
    NodeId producer = graph_[v].producer;
    return !producer.valid() || joint_.roles[producer] == JointRole::forward;
  }

  // The available values that copies read: their barriers come between forward and backward. Sample numbers
  // are always among them, so that dropout's random numbers are drawn again rather than saved.
  void find_barriers() {
    PerNode<bool> seen(graph_.nodes.size());
    std::vector<ValueId> open;
    for (NodeId n : graph_.node_ids())
      if (joint_.roles[n] == JointRole::backward)
        for (ValueId v : graph_.node(n).inputs)
          if (of_forward(v) && !is_there(v) && !is_there(joint_.root[v])) open.push_back(v);
    while (!open.empty()) {
      ValueId v = open.back();
      open.pop_back();
      if (is_there(v)) {
        if (joint_.varying[v]) barriers_.insert(v);
        continue;
      }
      NodeId n = graph_[v].producer;
      if (seen[n]) continue;
      seen[n] = true;
      for (ValueId input : graph_.node(n).inputs) open.push_back(input);
    }
    if (ValueId sample = graph_.find_input("rng.sample"); sample != kNoValue && !barriers_.empty())
      barriers_.insert(sample);
  }

  std::vector<ValueId> append(const Node& node, const std::vector<ValueId>& inputs) {
    std::vector<std::pair<DType, Shape>> types;
    for (ValueId v : node.outputs) types.emplace_back(graph_[v].dtype, graph_[v].shape);
    auto made = rewriter_.graph().append(node.op, inputs, node.attrs, types, node.at);
    rewriter_.graph().nodes.back().body = node.body;
    for (size_t i = 0; i < made.size(); ++i)
      rewriter_.graph()[made[i]].layout = graph_[node.outputs[i]].layout;
    return made;
  }

  // The value that a backward node or a copy reads for v.
  ValueId for_backward(ValueId v) {
    if (!of_forward(v) || !joint_.varying[v]) return rewriter_.at(v);
    const ValueId root = joint_.root[v];
    if (!is_there(v) && is_there(root) && !barriers_.count(root))
      return rewriter_.at(v);  // a view of a kept value
    if (again_[v] != kNoValue) return again_[v];
    if (is_there(v)) {
      if (!barriers_.count(v)) return rewriter_.at(v);
      const Value& value = graph_[v];
      ValueId made = rewriter_.graph().append(ops::reshape, {rewriter_.at(v)},
                                              {{"shape", Attr(value.shape)}, {"again", Attr(true)}},
                                              {{value.dtype, value.shape}}, line_of(v))[0];
      rewriter_.graph()[made].layout = value.layout;
      return again_[v] = made;
    }
    // All missing values for v, in the order of the forward pass.
    std::set<NodeId> missing;
    std::vector<ValueId> open{v};
    while (!open.empty()) {
      ValueId w = open.back();
      open.pop_back();
      if (is_there(w) || again_[w] != kNoValue || !missing.insert(graph_[w].producer).second) continue;
      for (ValueId input : graph_.producer(w).inputs) open.push_back(input);
    }
    for (NodeId n : missing) {
      LS_CHECK(joint_.may_repeat[n], graph_.node(n).op, " at ", graph_.node(n).at.text(),
               " may not be recomputed");
      std::vector<ValueId> inputs;
      for (ValueId input : graph_.node(n).inputs) inputs.push_back(for_backward(input));
      auto made = append(graph_.node(n), inputs);
      for (size_t i = 0; i < made.size(); ++i) again_[graph_.node(n).outputs[i]] = made[i];
    }
    return again_[v];
  }

  SourceLine line_of(ValueId v) const {
    return !graph_[v].producer.valid() ? SourceLine{} : graph_.producer(v).at;
  }

  const Graph& graph_;
  Joint joint_;
  PerValue<bool> kept_;
  PerValue<ValueId> again_;  // its copy, or its barrier
  std::set<ValueId> barriers_;
  Rewriter rewriter_;
};
}  // namespace

Graph rematerialize(Graph graph, const PassContext& context) {
  if (context.recomputed.empty()) return graph;
  return Repeater(graph, context.recomputed).run();
}

}  // namespace lockstep::compiler
