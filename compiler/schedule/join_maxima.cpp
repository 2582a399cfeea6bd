// Finds the maxima, and replaces those of many tensors by one node at the place of the first.
#include "compiler/schedule/join_maxima.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
constexpr int64_t kSmall = 1 << 16;  // elements of a tensor

class Joiner {
 public:
  explicit Joiner(const Graph& old) : old_(old), rewriter_(old), joined_(old.nodes.size()) {
    std::map<std::pair<DType, Shape>, std::vector<NodeId>> alike;
    for (NodeId n : old.node_ids())
      if (is_maximum(n)) {
        const Value& from = old[old.node(n).inputs[0]];
        alike[{from.dtype, from.shape}].push_back(n);
      }
    for (auto& [type, nodes] : alike)
      for (size_t first = 0; first < nodes.size(); first += kMostJoined) {
        const size_t end = std::min(first + kMostJoined, nodes.size());
        if (end - first < 2) continue;
        groups_.emplace_back(nodes.begin() + static_cast<std::ptrdiff_t>(first),
                             nodes.begin() + static_cast<std::ptrdiff_t>(end));
        for (NodeId n : groups_.back()) joined_[n] = true;
      }
  }

  Graph run() {
    if (groups_.empty()) return old_;
    // They depend only on inputs, so they come first.
    for (const std::vector<NodeId>& group : groups_) join(group);
    for (NodeId n : old_.node_ids())
      if (!joined_[n]) rewriter_.copy(old_.node(n));
    return rewriter_.finish();
  }

 private:
  bool is_maximum(NodeId n) const {
    const Node& node = old_.node(n);
    if (node.op != ops::max || old_[node.inputs[0]].producer.valid()) return false;
    const Value& from = old_[node.inputs[0]];
    const bool state = std::any_of(old_.inputs.begin(), old_.inputs.end(), [&](const GraphInput& input) {
      return input.value == node.inputs[0] && input.kind == InputKind::state;
    });
    return state && from.shape.size() == 2 && numel(from.shape) <= kSmall &&
           node.attrs.list("dims") == std::vector<int64_t>{1};
  }
  void join(const std::vector<NodeId>& group) {
    Graph& made = rewriter_.graph();
    const Node& first = old_.node(group[0]);
    const Value& one = old_[first.inputs[0]];
    std::vector<ValueId> parts;
    for (NodeId n : group) parts.push_back(rewriter_.at(old_.node(n).inputs[0]));
    const int64_t rows = one.shape[0], all = rows * static_cast<int64_t>(group.size());
    const ValueId whole = made.append(ops::concat, parts, {{"dim", int64_t{0}}},
                                      {{one.dtype, {all, one.shape[1]}}}, first.at)[0],
                  largest = made.append(ops::max, {whole}, first.attrs, {{one.dtype, {all}}}, first.at)[0];
    for (size_t i = 0; i < group.size(); ++i) {
      const Node& node = old_.node(group[i]);
      const auto from = static_cast<int64_t>(i) * rows;
      const Attrs attrs{{"start", Shape{from}}, {"limit", Shape{from + rows}}, {"step", Shape{1}}};
      rewriter_.map(node.outputs[0],
                    made.append(ops::slice, {largest}, attrs, {{one.dtype, {rows}}}, node.at)[0]);
    }
  }

  const Graph& old_;
  Rewriter rewriter_;
  PerNode<bool> joined_;
  std::vector<std::vector<NodeId>> groups_;
};
}  // namespace

Graph join_maxima(const Graph& seed) { return Joiner(seed).run(); }

}  // namespace lockstep::compiler
