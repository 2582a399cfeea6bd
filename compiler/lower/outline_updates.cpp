// Finds the arithmetic behind each assigned state, groups it, and writes the groups as nodes.
#include "compiler/lower/outline_updates.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"
#include "core/ops/updates.h"

namespace lockstep::compiler {

namespace {
// Assignments that become one node.
struct Assigned {
  Shape shape;
  std::vector<size_t> outputs;            // places in the graph's outputs
  std::set<NodeId> inside;                // the body
  std::vector<ValueId> tensors, scalars;  // what the body reads
  SourceLine at;
};

class Outliner {
 public:
  explicit Outliner(const Graph& old) : old_(old) {}

  Graph run() {
    for (size_t o = 0; o < old_.outputs.size(); ++o)
      if (is_assignment(old_.outputs[o])) groups_.push_back(group_of(o));
    if (groups_.empty()) return old_;
    merge();
    for (Assigned& group : groups_) put_rounded_first(group);
    return write();
  }

 private:
  bool is_assignment(const GraphOutput& output) const {
    if (output.kind != OutputKind::state || old_.find_input(output.name) == output.value) return false;
    const NodeId producer = old_[output.value].producer;
    return !producer.valid() || op_row(old_.node(producer).op).kind != OpKind::update ||
           replaces_other(output);
  }
  // An update's result that goes to another state than the one that it replaces.
  bool replaces_other(const GraphOutput& output) const {
    const Node& update = old_.producer(output.value);
    const int replaced = replaced_inputs(update)[static_cast<size_t>(old_[output.value].index)];
    return update.inputs[static_cast<size_t>(replaced)] != old_.find_input(output.name);
  }

  // Whether a value of this shape is computed element by element, so that it belongs to the body.
  bool computed_inside(ValueId v, const Shape& shape) const {
    if (!old_[v].producer.valid()) return false;
    const Node& node = old_.producer(v);
    if (node.op == ops::full) return true;
    if (old_[v].shape != shape || shape.empty()) return false;
    if (node.op == ops::broadcast) return old_[node.inputs[0]].shape.empty();
    return op_row(node.op).kind == OpKind::pointwise;
  }

  Assigned group_of(size_t o) const {
    const ValueId value = old_.outputs[o].value;
    Assigned out{
        .shape = old_[value].shape, .outputs = {o}, .inside = {}, .tensors = {}, .scalars = {}, .at = {}};
    if (old_[value].producer.valid()) out.at = old_.producer(value).at;
    std::set<ValueId> seen;
    std::vector<ValueId> open{value};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!seen.insert(v).second) continue;
      if (computed_inside(v, out.shape)) {
        out.inside.insert(old_[v].producer);
        for (ValueId input : old_.producer(v).inputs) open.push_back(input);
      } else {
        (old_[v].shape.empty() && !out.shape.empty() ? out.scalars : out.tensors).push_back(v);
      }
    }
    std::sort(out.tensors.begin(), out.tensors.end());
    std::sort(out.scalars.begin(), out.scalars.end());
    return out;
  }

  // Per value: computed from elements of a tensor, not from constants and scalars alone, which tensors of one
  // shape share.
  PerValue<bool> of_elements() const {
    PerValue<bool> out(old_.values.size());
    for (const auto& input : old_.inputs) out[input.value] = !old_[input.value].shape.empty();
    for (const Node& node : old_.nodes)
      for (ValueId v : node.outputs)
        out[v] = !old_[v].shape.empty() &&
                 (!computed_inside(v, old_[v].shape) ||
                  std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId i) { return out[i]; }));
    return out;
  }

  // Groups that share arithmetic on elements, or of which one reads what the other replaces.
  void merge() {
    const PerValue<bool> elements = of_elements();
    std::vector<size_t> root(groups_.size());
    std::iota(root.begin(), root.end(), size_t{0});
    auto find = [&](size_t g) {
      while (root[g] != g) g = root[g] = root[root[g]];
      return g;
    };
    std::map<NodeId, size_t> owner;
    std::map<ValueId, size_t> replacer;
    for (size_t g = 0; g < groups_.size(); ++g)
      replacer[old_.find_input(old_.outputs[groups_[g].outputs[0]].name)] = g;
    replacer.erase(kNoValue);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (NodeId n : groups_[g].inside)
        if (elements[old_.node(n).outputs[0]]) root[find(g)] = find(owner.try_emplace(n, g).first->second);
      for (ValueId v : groups_[g].tensors)
        if (auto at = replacer.find(v); at != replacer.end() && groups_[at->second].shape == groups_[g].shape)
          root[find(g)] = find(at->second);
    }
    std::map<size_t, Assigned> merged;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto [to, fresh] = merged.try_emplace(find(g), groups_[g]);
      if (!fresh) add(to->second, groups_[g]);
    }
    groups_.clear();
    for (auto& [g, group] : merged) groups_.push_back(std::move(group));
  }
  static void add(Assigned& to, const Assigned& from) {
    auto join = [](auto& into, const auto& more) {
      into.insert(into.end(), more.begin(), more.end());
      std::sort(into.begin(), into.end());
      into.erase(std::unique(into.begin(), into.end()), into.end());
    };
    join(to.outputs, from.outputs), join(to.tensors, from.tensors), join(to.scalars, from.scalars);
    to.inside.insert(from.inside.begin(), from.inside.end());
  }
  // A state that the step computes with in a rounded copy: the update that writes the state writes the copy,
  // of its first output.
  bool has_rounded_copy(size_t o) const {
    const ValueId state = old_.find_input(old_.outputs[o].name);
    return std::any_of(old_.nodes.begin(), old_.nodes.end(), [&](const Node& node) {
      return node.op == ops::convert && node.inputs[0] == state &&
             size_of(old_[node.outputs[0]].dtype) < size_of(old_[state].dtype);
    });
  }
  void put_rounded_first(Assigned& group) const {
    if (group.outputs.size() < 2) return;
    const auto rounded = std::stable_partition(group.outputs.begin(), group.outputs.end(),
                                               [&](size_t o) { return has_rounded_copy(o); });
    if (rounded - group.outputs.begin() > 1)
      throw UserError(
          str("[assign] ", group.at.text(), ": \"", old_.outputs[group.outputs[0]].name, "\" and \"",
              old_.outputs[group.outputs[1]].name,
              "\", which layers read rounded, are assigned by one expression; compute each from values "
              "of its own"));
  }

  // Nodes and groups in an order in which each comes behind what it reads, updates as late as can be. Items:
  // nodes by number, then groups.
  std::vector<size_t> order() const {
    const size_t nodes = old_.nodes.size(), items = nodes + groups_.size();
    std::vector<std::set<size_t>> before(items);
    std::map<ValueId, size_t> replacing;  // state that an update of another kind replaces: its node
    for (NodeId n : old_.node_ids()) {
      const Node& node = old_.node(n);
      for (ValueId v : node.inputs)
        if (old_[v].producer.valid()) before[n.index()].insert(old_[v].producer.index());
      if (op_row(node.op).kind == OpKind::update)
        for (int i : replaced_inputs(node)) replacing[node.inputs[static_cast<size_t>(i)]] = n.index();
    }
    for (size_t g = 0; g < groups_.size(); ++g)
      for (const auto* list : {&groups_[g].tensors, &groups_[g].scalars})
        for (ValueId v : *list) {
          if (old_[v].producer.valid()) before[nodes + g].insert(old_[v].producer.index());
          if (auto found = replacing.find(v); found != replacing.end())
            before[found->second].insert(nodes + g);
        }
    return sorted(before, nodes);
  }
  std::vector<size_t> sorted(const std::vector<std::set<size_t>>& before, size_t nodes) const {
    std::vector<std::vector<size_t>> after(before.size());
    std::vector<size_t> missing(before.size());
    for (size_t item = 0; item < before.size(); ++item) {
      missing[item] = before[item].size();
      for (size_t other : before[item]) after[other].push_back(item);
    }
    auto late = [&](size_t item) {
      return item >= nodes || op_row(old_.node(NodeId(item)).op).kind == OpKind::update;
    };
    using Ready = std::pair<bool, size_t>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (size_t item = 0; item < before.size(); ++item)
      if (!missing[item]) ready.emplace(late(item), item);
    std::vector<size_t> out;
    while (!ready.empty()) {
      const size_t item = ready.top().second;
      ready.pop();
      out.push_back(item);
      for (size_t next : after[item])
        if (--missing[next] == 0) ready.emplace(late(next), next);
    }
    for (size_t g = 0; g < groups_.size() && out.size() < before.size(); ++g)
      if (missing[nodes + g]) refuse_both(groups_[g]);
    LS_CHECK(out.size() == before.size(), "the updates have no order");
    return out;
  }
  [[noreturn]] void refuse_both(const Assigned& group) const {
    throw UserError(
        str("[assign] ", group.at.text(), ": \"", old_.outputs[group.outputs[0]].name,
            "\" is computed from the old and the new value of a state that an optimizer replaces in "
            "place; compute it from one of the two"));
  }

  Graph write() {
    Rewriter rewriter(old_);
    std::map<size_t, ValueId> assigned;  // per output
    for (size_t item : order()) {
      if (item < old_.nodes.size())
        rewriter.copy(old_.node(NodeId(item)));
      else
        append(groups_[item - old_.nodes.size()], rewriter, assigned);
    }
    Graph& made = rewriter.graph();
    for (size_t o = 0; o < old_.outputs.size(); ++o) {
      const auto found = assigned.find(o);
      made.add_output(old_.outputs[o].kind, old_.outputs[o].name,
                      found == assigned.end() ? rewriter.at(old_.outputs[o].value) : found->second);
    }
    return prune(made);
  }

  // The state that an output replaces, which a step may assign without having read it.
  ValueId state_of(size_t o, Graph& made, Rewriter& rewriter) const {
    const GraphOutput& output = old_.outputs[o];
    if (const ValueId v = old_.find_input(output.name); v != kNoValue) return rewriter.at(v);
    const Value& value = old_[output.value];
    return made.add_input(InputKind::state, output.name, value.dtype, value.shape);
  }

  void append(const Assigned& group, Rewriter& rewriter, std::map<size_t, ValueId>& assigned) const {
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
    for (size_t o : group.outputs) {
      const ValueId state = state_of(o, made, rewriter), old = old_.find_input(old_.outputs[o].name);
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
    for (size_t o : group.outputs) {
      const ValueId v = old_.outputs[o].value;
      body.add_output(OutputKind::value, str("out", types.size()), map[v]);
      types.emplace_back(old_[v].dtype, old_[v].shape);
    }
    auto outputs = made.append(ops::update, inputs, {{"replaces", Attr(replaces)}}, types, group.at);
    made.nodes.back().body = std::make_shared<Graph>(std::move(body));
    for (size_t k = 0; k < outputs.size(); ++k) assigned[group.outputs[k]] = outputs[k];
  }

  const Graph& old_;
  std::vector<Assigned> groups_;
};
}  // namespace

Graph outline_updates(Graph graph, const PassContext&) { return Outliner(graph).run(); }

}  // namespace lockstep::compiler
