// Walks back from assigned state, and from nodes that read whole values.
#include "compiler/lower/update_groups.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/ir/walk.h"
#include "core/ops/op.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

namespace {
bool is_update(const Node& node) { return op_row(node.op).kind == OpKind::update; }
bool is_sum(const Graph& graph, const Node& node) {
  return node.op == ops::sum_lanes && is_float(graph[node.outputs[0]].dtype);
}

class GroupFinder {
 public:
  explicit GroupFinder(const Graph& graph)
      : graph_(graph),
        of_sums_(graph.values.size()),
        by_rows_(graph.values.size()),
        outlined_(graph.values.size()),
        depth_whole_(graph.values.size(), 0),
        depth_by_rows_(graph.values.size(), 0) {}

  std::vector<UpdateGroup> run() {
    for (size_t o = 0; o < graph_.outputs.size(); ++o)
      if (is_assignment(graph_, graph_.outputs[o]))
        groups_.push_back(group_of({graph_.outputs[o].value, static_cast<int>(o)}));
    find_by_rows();
    find_outlined();
    find_depths();
    keep_what_is_replaced();
    drop_repeated();
    find_depths();
    std::vector<UpdateGroup::Target> targets;
    for (const UpdateGroup& group : groups_) targets.push_back(group.targets[0]);
    for (ValueId v : graph_.value_ids())
      if (outlined_[v]) targets.push_back({v});
    groups_.clear();
    for (const UpdateGroup::Target& target : targets) groups_.push_back(group_of(target));
    merge();
    return std::move(groups_);
  }

 private:
  // Whether a value of this shape is computed elementwise, so that it belongs to the body.
  bool computed_inside(ValueId v, const Shape& shape) const {
    if (!graph_[v].producer.valid()) return false;
    const Node& node = graph_.producer(v);
    if (node.op == ops::full) return true;
    if (graph_[v].shape != shape || shape.empty()) return false;
    if (node.op == ops::broadcast) return graph_[node.inputs[0]].shape.empty();
    return op_row(node.op).kind == OpKind::pointwise;
  }

  // Values that are computed by rows from rows of gradients and state, scalars and constants. Scalars that
  // depend on whole gradients are excluded: those gradients are gathered, and nothing else needs to be.
  void find_by_rows() {
    PerValue<bool> of_whole(graph_.values.size());
    for (const auto& input : graph_.inputs)
      by_rows_[input.value] = input.kind == InputKind::state && !graph_[input.value].shape.empty();
    std::vector<ValueId> sums;
    for (const Node& node : graph_.nodes)
      if (is_sum(graph_, node)) sums.push_back(node.outputs[0]);
    of_sums_ = depends_on(graph_, sums);
    for (const Node& node : graph_.nodes) {
      if (node.outputs.empty()) continue;
      const ValueId v = node.outputs[0];
      if (is_sum(graph_, node)) {
        by_rows_[v] = !graph_[v].shape.empty();
        continue;
      }
      of_whole[v] =
          node.op != ops::global_norm && std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId i) {
            return graph_[i].shape.empty() ? of_whole[i] : of_sums_[i];
          });
      if (computed_inside(v, graph_[v].shape))
        by_rows_[v] = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId i) {
          return graph_[i].shape.empty() ? !of_whole[i] : by_rows_[i] && graph_[i].shape == graph_[v].shape;
        });
    }
  }

  // Values that are read whole after the sums over micro-batches.
  void find_outlined() {
    std::vector<ValueId> open;
    for (const UpdateGroup& group : groups_)
      for (const auto* list : {&group.tensors, &group.scalars})
        open.insert(open.end(), list->begin(), list->end());
    for (const Node& node : graph_.nodes)
      if (is_update(node)) open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    for (const auto& output : graph_.outputs)
      if (output.kind != OutputKind::state) open.push_back(output.value);
    std::set<ValueId> seen;
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!of_sums_[v] || !graph_[v].producer.valid() || !seen.insert(v).second) continue;
      const Node& node = graph_.producer(v);
      if (is_sum(graph_, node) || is_update(node) || node.op == ops::global_norm) continue;
      if (by_rows_[v] && graph_[v].dtype == DType::f32) {
        outlined_[v] = true;
        continue;
      }
      for (ValueId input : node.inputs) open.push_back(input), read_whole_.insert(input);
    }
  }
  // A value is not outlined if everything that it is computed from is whole, outlined or a scalar anyway.
  void drop_repeated() {
    for (ValueId v : graph_.value_ids())
      if (outlined_[v]) {
        const std::vector<ValueId> leaves = read_for(v);
        outlined_[v] = !std::all_of(leaves.begin(), leaves.end(), [&](ValueId read) {
          return read_whole_.count(read) > 0 || outlined_[read] || graph_[read].shape.empty();
        });
      }
  }
  // The values that the elements of a value depend on, up to the next outlined value.
  std::vector<ValueId> read_for(ValueId made) const {
    std::vector<ValueId> out, open{made};
    std::set<ValueId> seen;
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!seen.insert(v).second) continue;
      if (computed_inside(v, graph_[made].shape) && (v == made || !outlined_[v]))
        for (ValueId input : graph_.producer(v).inputs) open.push_back(input);
      else
        out.push_back(v);
    }
    return out;
  }

  // A state that is replaced early may be read late, through values that are computed together with the new
  // state.
  void keep_what_is_replaced() {
    std::map<ValueId, int> replaced_at;
    for (const UpdateGroup& group : groups_) replaced_at[replaced(group)] = depth_of(group);
    for (const UpdateGroup& group : groups_) {
      std::vector<ValueId> open{group.targets[0].value};
      std::set<ValueId> seen;
      while (!open.empty()) {
        const ValueId v = open.back();
        open.pop_back();
        if (!seen.insert(v).second || outlined_[v] || !computed_inside(v, group.shape)) continue;
        const std::vector<ValueId> reads = read_for(v);
        if (by_rows_[v] && depth_by_rows_[v] < depth_of(group) && graph_[v].dtype == DType::f32 &&
            std::any_of(
                reads.begin(), reads.end(),
                [&](ValueId state) {
                  const auto found = replaced_at.find(state);
                  return found != replaced_at.end() && found->second < depth_of(group);
                })) {
          outlined_[v] = true;
          continue;
        }
        for (ValueId input : graph_.producer(v).inputs) open.push_back(input);
      }
    }
  }

  // How often the path to a value goes by rows and becomes whole again; separately for the value as a whole
  // and by rows.
  void find_depths() {
    for (const Node& node : graph_.nodes)
      for (ValueId v : node.outputs) {
        int by_rows = 0, whole = 0;
        for (ValueId i : node.inputs)
          by_rows = std::max(by_rows, depth_by_rows_[i]), whole = std::max(whole, depth_whole_[i]);
        const bool inside = computed_inside(v, graph_[v].shape);
        depth_whole_[v] = outlined_[v] ? by_rows + 1 : whole;
        depth_by_rows_[v] = inside ? by_rows : depth_whole_[v];
      }
  }

  UpdateGroup group_of(const UpdateGroup::Target& target) const {
    const int depth = depth_by_rows_[target.value];
    UpdateGroup out;
    out.shape = graph_[target.value].shape;
    out.targets = {target};
    if (graph_[target.value].producer.valid()) out.at = graph_.producer(target.value).at;
    std::set<ValueId> seen;
    std::vector<ValueId> open{target.value};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!seen.insert(v).second) continue;
      const bool made_before = outlined_[v] && depth_by_rows_[v] < depth;
      if (computed_inside(v, out.shape) && !made_before) {
        out.inside.insert(graph_[v].producer);
        for (ValueId input : graph_.producer(v).inputs) open.push_back(input);
      } else {
        (graph_[v].shape.empty() && !out.shape.empty() ? out.scalars : out.tensors).push_back(v);
      }
    }
    std::sort(out.tensors.begin(), out.tensors.end());
    std::sort(out.scalars.begin(), out.scalars.end());
    return out;
  }

  // Per value: whether it is computed from elements of a tensor. Values of only constants and scalars do not
  // count, because tensors of one shape share them.
  PerValue<bool> of_elements() const {
    PerValue<bool> out(graph_.values.size());
    for (const auto& input : graph_.inputs) out[input.value] = !graph_[input.value].shape.empty();
    for (const Node& node : graph_.nodes)
      for (ValueId v : node.outputs)
        out[v] = !graph_[v].shape.empty() &&
                 (!computed_inside(v, graph_[v].shape) ||
                  std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId i) { return out[i]; }));
    return out;
  }

  int depth_of(const UpdateGroup& group) const { return depth_by_rows_[group.targets[0].value]; }
  ValueId replaced(const UpdateGroup& group) const {
    const int output = group.targets[0].output;
    return output < 0 ? kNoValue : graph_.find_input(graph_.outputs[output].name);
  }

  // Merges groups that share arithmetic on elements, or where one reads the state that another replaces.
  // Groups of two depths stay separate, because whole values are between them.
  void merge() {
    const PerValue<bool> elements = of_elements();
    std::vector<size_t> root(groups_.size());
    std::iota(root.begin(), root.end(), size_t{0});
    auto find = [&](size_t g) {
      while (root[g] != g) g = root[g] = root[root[g]];
      return g;
    };
    std::map<std::pair<int, NodeId>, size_t> owner;
    std::map<ValueId, size_t> replacer;
    for (size_t g = 0; g < groups_.size(); ++g) replacer[replaced(groups_[g])] = g;
    replacer.erase(kNoValue);
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int depth = depth_of(groups_[g]);
      for (NodeId n : groups_[g].inside)
        if (elements[graph_.node(n).outputs[0]])
          root[find(g)] = find(owner.try_emplace({depth, n}, g).first->second);
      for (ValueId v : groups_[g].tensors)
        if (auto at = replacer.find(v); at != replacer.end() &&
                                        groups_[at->second].shape == groups_[g].shape &&
                                        depth_of(groups_[at->second]) == depth)
          root[find(g)] = find(at->second);
    }
    std::map<size_t, UpdateGroup> merged;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto [to, fresh] = merged.try_emplace(find(g), groups_[g]);
      if (!fresh) add(to->second, groups_[g]);
    }
    groups_.clear();
    for (auto& [g, group] : merged) groups_.push_back(std::move(group));
  }
  static void add(UpdateGroup& to, const UpdateGroup& from) {
    auto join = [](auto& into, const auto& more) {
      into.insert(into.end(), more.begin(), more.end());
      std::sort(into.begin(), into.end());
      into.erase(std::unique(into.begin(), into.end()), into.end());
    };
    to.targets.insert(to.targets.end(), from.targets.begin(), from.targets.end());
    join(to.tensors, from.tensors), join(to.scalars, from.scalars);
    to.inside.insert(from.inside.begin(), from.inside.end());
  }

  const Graph& graph_;
  std::vector<UpdateGroup> groups_;
  PerValue<bool> of_sums_;  // computed from a gradient, or another float summed over micro-batches
  PerValue<bool> by_rows_;  // see find_by_rows
  std::set<ValueId> read_whole_;
  PerValue<bool> outlined_;  // computed by an update, and read by other nodes
  PerValue<int> depth_whole_, depth_by_rows_;
};

// An update's result that goes to another state than the one that it replaces.
bool replaces_other(const Graph& graph, const GraphOutput& output) {
  const Node& update = graph.producer(output.value);
  const int replaced = replaced_inputs(update)[graph[output.value].index];
  return update.inputs[replaced] != graph.find_input(output.name);
}
}  // namespace

bool is_assignment(const Graph& graph, const GraphOutput& output) {
  if (output.kind != OutputKind::state || graph.find_input(output.name) == output.value) return false;
  const NodeId producer = graph[output.value].producer;
  return !producer.valid() || !is_update(graph.node(producer)) || replaces_other(graph, output);
}

std::vector<UpdateGroup> update_groups(const Graph& graph) { return GroupFinder(graph).run(); }

}  // namespace lockstep::compiler
