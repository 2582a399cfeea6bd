// Orders updates among the other nodes, and writes them as update nodes.
#include "compiler/lower/outline_updates.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "compiler/lower/update_groups.h"
#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

namespace {
using Target = UpdateGroup::Target;

class Outliner {
 public:
  explicit Outliner(const Graph& old)
      : old_(old),
        groups_(update_groups(old)),
        rounded_(find_rounded(old)),
        made_by_(old.values.size(), -1),
        live_(old.nodes.size()) {}

  Graph run() {
    if (groups_.empty() && !reads_replaced()) return old_;
    for (size_t g = 0; g < groups_.size(); ++g) {
      put_rounded_first(groups_[g]);
      for (const Target& target : groups_[g].targets)
        if (target.output < 0) made_by_[target.value] = static_cast<int>(g);
    }
    find_live();
    return write();
  }

 private:
  // Whether a node must come after an update that replaces its input in place.
  bool reads_replaced() const {
    std::set<ValueId> replaced;
    for (const Node& node : old_.nodes) {
      for (ValueId v : node.inputs)
        if (replaced.count(v)) return true;
      if (op_row(node.op).kind == OpKind::update)
        for (int i : replaced_inputs(node)) replaced.insert(node.inputs[i]);
    }
    return false;
  }

  const GraphOutput& output(const Target& target) const { return old_.outputs[target.output]; }
  // A state that the step computes with in a rounded copy: the update that writes the state also writes the
  // copy, of its first output.
  bool has_rounded_copy(const Target& target) const {
    return target.output >= 0 && rounded_.count(output(target).name);
  }
  // Names of states that a convert narrows.
  static std::set<std::string> find_rounded(const Graph& graph) {
    std::set<ValueId> narrowed;
    for (const Node& node : graph.nodes)
      if (node.op == ops::convert &&
          size_of(graph[node.outputs[0]].dtype) < size_of(graph[node.inputs[0]].dtype))
        narrowed.insert(node.inputs[0]);
    std::set<std::string> out;
    for (const auto& input : graph.inputs)
      if (narrowed.count(input.value)) out.insert(input.name);
    return out;
  }
  // States come before values that replace nothing; first of all comes the state that layers read rounded.
  void put_rounded_first(UpdateGroup& group) const {
    auto& targets = group.targets;
    const auto states = std::stable_partition(targets.begin(), targets.end(),
                                              [](const Target& target) { return target.output >= 0; });
    if (targets.size() < 2) return;
    const auto rounded = std::stable_partition(
        targets.begin(), states, [&](const Target& target) { return has_rounded_copy(target); });
    if (rounded - targets.begin() > 1)
      throw UserError(str(
          "[assign] ", group.at.text(), ": \"", output(targets[0]).name, "\" and \"", output(targets[1]).name,
          "\", which layers read rounded, are assigned by one expression; compute each from values "
          "of its own"));
  }

  // Finds nodes that are still needed after the groups have become nodes.
  void find_live() {
    std::vector<ValueId> open;
    std::set<size_t> assigned;
    for (const UpdateGroup& group : groups_) {
      for (const Target& target : group.targets)
        if (target.output >= 0) assigned.insert(target.output);
      for (const auto* list : {&group.tensors, &group.scalars})
        open.insert(open.end(), list->begin(), list->end());
    }
    for (size_t o = 0; o < old_.outputs.size(); ++o)
      if (!assigned.count(o)) open.push_back(old_.outputs[o].value);
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      const NodeId made = old_[v].producer;
      if (made_by_[v] >= 0 || !made.valid() || live_[made]) continue;
      live_[made] = true;
      for (ValueId input : old_.node(made).inputs) open.push_back(input);
    }
  }

  // Items of an order: nodes by number, then groups. kNone: a value that is given.
  static constexpr size_t kNone = -1;
  size_t item_of(ValueId v) const {
    if (made_by_[v] >= 0) return old_.nodes.size() + static_cast<size_t>(made_by_[v]);
    return old_[v].producer.valid() ? old_[v].producer.index() : kNone;
  }
  // The states that are replaced in place, and the item that does it.
  std::map<ValueId, size_t> replacing() const {
    std::map<ValueId, size_t> out;
    for (NodeId n : old_.node_ids())
      if (const Node& node = old_.node(n); live_[n] && op_row(node.op).kind == OpKind::update)
        for (int i : replaced_inputs(node)) out[node.inputs[i]] = n.index();
    for (size_t g = 0; g < groups_.size(); ++g)
      for (const Target& target : groups_[g].targets)
        if (target.output >= 0) out[old_.find_input(output(target).name)] = old_.nodes.size() + g;
    out.erase(kNoValue);
    return out;
  }
  // An order in which each item comes after the items that it reads, and before the items that replace its
  // inputs. Updates come as late as possible, except those whose results travel.
  std::vector<size_t> order() const {
    const size_t nodes = old_.nodes.size();
    std::vector<std::set<size_t>> before(nodes + groups_.size());
    const auto replaced_by = replacing();
    auto reads = [&](size_t item, ValueId v) {
      if (const size_t made = item_of(v); made != kNone) before[item].insert(made);
      if (auto found = replaced_by.find(v); found != replaced_by.end() && found->second != item)
        before[found->second].insert(item);
    };
    for (NodeId n : old_.node_ids())
      if (live_[n])
        for (ValueId v : old_.node(n).inputs) reads(n.index(), v);
    for (size_t g = 0; g < groups_.size(); ++g)
      for (const auto* list : {&groups_[g].tensors, &groups_[g].scalars})
        for (ValueId v : *list) reads(nodes + g, v);
    return sorted(before, nodes);
  }
  int lateness(size_t item, size_t nodes) const {
    if (item < nodes) return op_row(old_.node(NodeId(item)).op).kind == OpKind::update ? 2 : 0;
    const auto& targets = groups_[item - nodes].targets;
    return std::any_of(targets.begin(), targets.end(), [](const Target& t) { return t.output < 0; }) ? 1 : 2;
  }
  std::vector<size_t> sorted(const std::vector<std::set<size_t>>& before, size_t nodes) const {
    std::vector<std::vector<size_t>> after(before.size());
    std::vector<size_t> missing(before.size());
    for (size_t item = 0; item < before.size(); ++item) {
      missing[item] = before[item].size();
      for (size_t other : before[item]) after[other].push_back(item);
    }
    using Ready = std::pair<int, size_t>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (size_t item = 0; item < before.size(); ++item)
      if (!missing[item]) ready.emplace(lateness(item, nodes), item);
    std::vector<size_t> out;
    while (!ready.empty()) {
      const size_t item = ready.top().second;
      ready.pop();
      out.push_back(item);
      for (size_t next : after[item])
        if (--missing[next] == 0) ready.emplace(lateness(next, nodes), next);
    }
    if (out.size() < before.size()) refuse_both(missing);
    return out;
  }
  // Both the old and the new value of a state that is replaced in place are needed.
  [[noreturn]] void refuse_both(const std::vector<size_t>& missing) const {
    const std::string way_out =
        " the old and the new value of a state that an optimizer "
        "replaces in place; compute it from one of the two";
    for (size_t g = 0; g < groups_.size(); ++g)
      for (const Target& target : groups_[g].targets)
        if (missing[old_.nodes.size() + g] && target.output >= 0)
          throw UserError(str("[assign] ", groups_[g].at.text(), ": \"", output(target).name,
                              "\" is computed from", way_out));
    for (NodeId n : old_.node_ids())
      if (const Node& node = old_.node(n); missing[n.index()] && op_row(node.op).kind != OpKind::update)
        throw UserError(str("[", node.op, "] ", node.at.text(), ": reads", way_out));
    throw InternalError("the updates have no order");
  }

  Graph write() {
    Rewriter rewriter(old_);
    std::map<size_t, ValueId> assigned;  // per output
    for (size_t item : order()) {
      if (item >= old_.nodes.size())
        append(groups_[item - old_.nodes.size()], rewriter, assigned);
      else if (live_[NodeId(item)])
        rewriter.copy(old_.node(NodeId(item)));
    }
    Graph& made = rewriter.graph();
    for (size_t o = 0; o < old_.outputs.size(); ++o) {
      const auto found = assigned.find(o);
      made.add_output(old_.outputs[o].kind, old_.outputs[o].name,
                      found == assigned.end() ? rewriter.at(old_.outputs[o].value) : found->second);
    }
    return prune(made);
  }

  // The state that a target replaces; a step may assign it without having read it.
  ValueId state_of(const Target& target, Graph& made, Rewriter& rewriter) const {
    if (const ValueId v = old_.find_input(output(target).name); v != kNoValue) return rewriter.at(v);
    const Value& value = old_[target.value];
    return made.add_input(InputKind::state, output(target).name, value.dtype, value.shape);
  }

  void append(const UpdateGroup& group, Rewriter& rewriter, std::map<size_t, ValueId>& assigned) const {
    Graph& made = rewriter.graph();
    std::vector<ValueId> inputs;
    std::vector<int64_t> replaces;
    Graph body;
    PerValue<ValueId> map(old_.values.size(), kNoValue);
    auto shape_in = [](const Shape& shape) { return shape.empty() ? Shape{} : Shape{kUpdateElements}; };
    auto add = [&](ValueId at, const char* kind) {
      inputs.push_back(at);
      const bool scalar = made[at].shape.empty();
      return body.add_input(scalar ? InputKind::scalar : InputKind::value, str(kind, inputs.size() - 1),
                            made[at].dtype, shape_in(made[at].shape));
    };
    for (const Target& target : group.targets) {
      if (target.output < 0) {
        replaces.push_back(kReplacesNothing);
        continue;
      }
      const ValueId state = state_of(target, made, rewriter), old = old_.find_input(output(target).name);
      replaces.push_back(static_cast<int64_t>(inputs.size()));
      const ValueId in = add(state, "state");
      if (old != kNoValue) map[old] = in;
    }
    for (ValueId v : group.tensors)
      if (map[v] == kNoValue) map[v] = add(rewriter.at(v), "tensor");
    for (ValueId v : group.scalars) map[v] = add(rewriter.at(v), "scalar");
    for (NodeId n : group.inside) {
      const Node& node = old_.node(n);
      const ValueId v = node.outputs[0];
      std::vector<ValueId> in;
      for (ValueId input : node.inputs) in.push_back(map[input]);
      Attrs attrs = node.attrs;
      if (attrs.has("shape")) attrs.set("shape", shape_in(old_[v].shape));
      map[v] = body.append(node.op, in, attrs, {{old_[v].dtype, shape_in(old_[v].shape)}}, node.at)[0];
    }
    std::vector<std::pair<DType, Shape>> types;
    for (const Target& target : group.targets) {
      body.add_output(OutputKind::value, str("out", types.size()), map[target.value]);
      types.emplace_back(old_[target.value].dtype, old_[target.value].shape);
    }
    auto outputs = made.append(ops::update, inputs, {{"replaces", Attr(replaces)}}, types, group.at);
    made.nodes.back().body = std::make_shared<Graph>(std::move(body));
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Target& target = group.targets[k];
      if (target.output >= 0)
        assigned[target.output] = outputs[k];
      else
        rewriter.map(target.value, outputs[k]);
    }
  }

  const Graph& old_;
  std::vector<UpdateGroup> groups_;
  std::set<std::string> rounded_;  // see find_rounded
  PerValue<int> made_by_;          // values that replace nothing: their group; -1 for others
  PerNode<bool> live_;             // see find_live
};
}  // namespace

Graph outline_updates(Graph graph, const PassContext&) { return Outliner(graph).run(); }

}  // namespace lockstep::compiler
