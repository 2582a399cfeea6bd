// Cuts the typed program into count, seed, body and tail.
#include "compiler/schedule/phases.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep {

namespace {
// The input that a value is, or is gathered from as it is; kNoValue for another value.
ValueId gathered_input(const Graph& whole, ValueId v) {
  while (whole[v].producer.valid()) {
    const Node& node = whole.producer(v);
    if (node.op != ops::wait) return kNoValue;
    const Node& start = whole.producer(node.inputs[0]);
    if (start.op != ops::all_gather_start) return kNoValue;
    v = start.inputs[whole[v].index];
  }
  return v;
}

// The nodes needed for `outputs`, stopping at values in `given` and at graph inputs.
Phase extract(const Graph& whole, const std::vector<ValueId>& outputs, const std::set<ValueId>& given) {
  PerValue<bool> needed(whole.values.size());
  std::set<NodeId> nodes;
  std::vector<ValueId> open = outputs;
  while (!open.empty()) {
    ValueId v = open.back();
    open.pop_back();
    if (needed[v]) continue;
    needed[v] = true;
    if (given.count(v) || !whole[v].producer.valid()) continue;
    nodes.insert(whole[v].producer);
    for (ValueId input : whole.producer(v).inputs) open.push_back(input);
  }
  Phase phase;
  PerValue<ValueId> map(whole.values.size(), kNoValue);
  auto add_input = [&](InputKind kind, const std::string& label, ValueId v) {
    map[v] = phase.graph.add_input(kind, label, whole[v].dtype, whole[v].shape);
    phase.inputs.push_back(v);
  };
  // A weight is the same input of the phase whether it lies whole or was gathered: the phase is the same on
  // every mesh.
  std::map<ValueId, ValueId> gathered;
  for (ValueId v : given)
    if (needed[v] && whole[v].producer.valid())
      if (ValueId input = gathered_input(whole, v); input != kNoValue) gathered[input] = v;
  for (const auto& input : whole.inputs) {
    if (needed[input.value]) add_input(input.kind, input.name, input.value);
    if (auto found = gathered.find(input.value); found != gathered.end())
      add_input(input.kind, input.name, found->second);
  }
  // A given value's name is its place among the given ones, not its id: ids differ where programs differ
  // elsewhere.
  int place = 0;
  for (ValueId v : given)
    if (needed[v] && whole[v].producer.valid() && map[v] == kNoValue)
      add_input(InputKind::value, str("given", place++), v);
  for (NodeId n : nodes) {
    const Node& node = whole.node(n);
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(map[v]);
    std::vector<std::pair<DType, Shape>> types;
    for (ValueId v : node.outputs) types.emplace_back(whole[v].dtype, whole[v].shape);
    auto made = phase.graph.append(node.op, inputs, node.attrs, types, node.at);
    for (size_t i = 0; i < made.size(); ++i)
      if (map[node.outputs[i]] == kNoValue) map[node.outputs[i]] = made[i];
  }
  for (ValueId v : outputs) {
    phase.graph.add_output(OutputKind::value, str("out", phase.outputs.size()), map[v]);
    phase.outputs.push_back(v);
  }
  phase.graph.mesh = Mesh{};
  return phase;
}

// Work that the body may as well do again: no arithmetic, or a convert that only makes the value larger.
bool trivial(const Graph& graph, const Node& node) {
  OpKind kind = op_row(node.op).kind;
  return kind == OpKind::view || kind == OpKind::creation || node.op == ops::take ||
         (node.op == ops::convert &&
          size_of(graph[node.outputs[0]].dtype) > size_of(graph[node.inputs[0]].dtype));
}

bool is_lane_node(const Node& node) {
  OpKind kind = op_row(node.op).kind;
  return kind == OpKind::lanes || kind == OpKind::collective || kind == OpKind::update;
}
}  // namespace

namespace {
// Takes gathers over `mesh_dim` out of the head, if nothing but the body reads what they bring.
void stream_weights(Phases& phases, const std::string& mesh_dim) {
  const Graph& whole = phases.whole;
  std::set<ValueId> elsewhere;
  for (const Phase* phase : {&phases.count, &phases.seed})
    elsewhere.insert(phase->inputs.begin(), phase->inputs.end());
  for (const Phase& fragment : phases.fragments)
    elsewhere.insert(fragment.inputs.begin(), fragment.inputs.end());
  for (const auto& step : phases.tail)
    if (step.node.valid())
      for (ValueId v : whole.node(step.node).inputs) elsewhere.insert(v);
  for (const auto& output : whole.outputs) elsewhere.insert(output.value);
  std::map<ValueId, int> inputs;
  for (size_t i = 0; i < phases.body.inputs.size(); ++i) inputs[phases.body.inputs[i]] = static_cast<int>(i);
  std::set<NodeId> taken;
  for (NodeId n : phases.head) {
    const Node& wait = whole.node(n);
    if (wait.op != ops::wait) continue;
    const NodeId start = whole[wait.inputs[0]].producer;
    if (whole.node(start).attrs.word("mesh_dim") != mesh_dim) continue;
    if (std::any_of(wait.outputs.begin(), wait.outputs.end(),
                    [&](ValueId v) { return elsewhere.count(v) || !inputs.count(v); }))
      continue;
    for (size_t i = 0; i < wait.outputs.size(); ++i)
      phases.streamed.push_back({inputs[wait.outputs[i]], start, i});
    taken.insert({n, start});
  }
  std::erase_if(phases.head, [&](NodeId n) { return taken.count(n) > 0; });
}
}  // namespace

namespace {
// A count is taken before the rest of the step, which divides by it.
void refuse_state_in_count(const Graph& whole, ValueId count, const Node& node) {
  const Phase phase = extract(whole, {count}, {});
  for (ValueId v : phase.inputs)
    for (const auto& input : whole.inputs)
      if (input.value == v && input.kind == InputKind::state)
        throw UserError(
            str("[sum_lanes] ", node.at.text(), ": the sum over micro-batches of ",
                shape_text(whole[count].dtype, whole[count].shape), " reads the state \"", input.name,
                "\", and integers are summed before the step computes with its weights, because losses are "
                "divided by such counts: a loss's count must "
                "depend on data only; a metric that depends on weights is summed as f32: convert it first"));
}
}  // namespace

Phases cut_phases(const Graph& whole, const std::string& streamed_dim) {
  Phases out;
  out.whole = whole;
  std::vector<ValueId> counts, gradients, counted, exchanged;
  for (NodeId n : whole.node_ids()) {
    const Node& node = whole.node(n);
    if (node.op == ops::lane_count) {
      counts.push_back(node.inputs[0]);
      out.counts.push_back(n);
      counted.push_back(node.outputs[0]);
    }
    if (node.op == ops::lane_exchange_start) {
      out.exchanges.push_back(n);
      out.buckets.emplace_back();
      for (ValueId v : node.inputs) {
        auto found = std::find(gradients.begin(), gradients.end(), v);
        out.buckets.back().push_back(static_cast<int>(found - gradients.begin()));
        if (found == gradients.end()) gradients.push_back(v);
      }
      exchanged.push_back(node.outputs[0]);
    }
  }
  out.count = extract(whole, counts, {});
  for (size_t i = 0; i < counts.size(); ++i)
    refuse_state_in_count(whole, counts[i], whole.node(out.counts[i]));

  // Whole values that depend on a count and that the body reads.
  auto after_count = depends_on(whole, counted), after_exchange = depends_on(whole, exchanged);
  std::set<ValueId> reduced;
  for (const Node& node : whole.nodes)
    for (ValueId v : node.outputs)
      if (node.op == ops::wait && after_count[v] && !after_exchange[v]) reduced.insert(v);
  // Weights that lie as rows: gathers that no gradient reaches, and what they gather.
  std::set<NodeId> head;
  std::set<ValueId> gathered;
  for (NodeId n : whole.node_ids()) {
    const Node& node = whole.node(n);
    if (node.op == ops::all_gather_start && !after_exchange[node.outputs[0]]) {
      head.insert(n);
      for (ValueId v : node.inputs) {
        NodeId made = whole[v].producer;
        if (!made.valid()) continue;
        const Node& rounded = whole.node(made);
        if (rounded.op == ops::wait && head.count(made)) continue;  // gathered over another dim before
        if (rounded.op != ops::convert || whole[rounded.inputs[0]].producer.valid())
          throw UserError(
              str("[", rounded.op, "] ", rounded.at.text(),
                  ": reads rows of the state before the loss; only a convert of a parameter may"));
        head.insert(made);
      }
    }
    if (node.op == ops::wait && head.count(whole[node.inputs[0]].producer)) {
      head.insert(n);
      gathered.insert(node.outputs.begin(), node.outputs.end());
    }
  }
  out.head.assign(head.begin(), head.end());
  reduced.insert(gathered.begin(), gathered.end());

  auto is_lane_value = [&](ValueId v) {
    for (const auto& [dim, placement] : whole[v].layout.splits)
      if (placement.kind == Placement::Kind::per_lane) return true;
    return false;
  };
  std::set<ValueId> seeds;
  for (const Node& node : whole.nodes)
    for (ValueId v : node.inputs) {
      bool reader_in_body =
          !node.outputs.empty() && is_lane_value(node.outputs[0]) && node.op != ops::lane_count;
      bool made_once = whole[v].producer.valid() && !is_lane_value(v) && after_count[v] && !after_exchange[v];
      if (reader_in_body && made_once) seeds.insert(v);
    }

  // Whole values that depend on state alone and are not trivial, such as weights rounded to bf16: what the
  // body reads of them, through trivial nodes if need be.
  std::vector<ValueId> state;
  for (const auto& input : whole.inputs)
    if (input.kind == InputKind::state) state.push_back(input.value);
  auto after_state = depends_on(whole, state);
  PerValue<bool> visited(whole.values.size());
  auto of_state = [&](auto&& self, ValueId v) -> void {
    if (visited[v] || !whole[v].producer.valid() || is_lane_value(v) || !after_state[v] || after_count[v] ||
        after_exchange[v])
      return;
    visited[v] = true;
    const Node& node = whole.producer(v);
    if (is_lane_node(node)) return;
    if (!trivial(whole, node)) {
      seeds.insert(v);
      return;
    }
    for (ValueId input : node.inputs) self(self, input);
  };
  for (const Node& node : whole.nodes)
    if (!node.outputs.empty() && is_lane_value(node.outputs[0]) && node.op != ops::lane_count)
      for (ValueId v : node.inputs) of_state(of_state, v);
  out.seed = extract(whole, {seeds.begin(), seeds.end()}, reduced);
  std::set<ValueId> made_before = seeds;
  made_before.insert(gathered.begin(), gathered.end());
  out.body = extract(whole, gradients, made_before);

  // State that this step replaces: nothing else of the tail may read it, because the update is in place.
  std::map<ValueId, std::string> replaced;
  for (const auto& input : whole.inputs)
    if (input.kind == InputKind::state && whole.find_output(input.name) != kNoValue &&
        whole.find_output(input.name) != input.value)
      replaced[input.value] = input.name;

  // The rest, in order.
  std::vector<NodeId> plain;
  auto flush = [&] {
    if (plain.empty()) return;
    std::vector<ValueId> outputs;
    std::set<ValueId> inside;
    for (NodeId n : plain)
      for (ValueId v : whole.node(n).outputs) outputs.push_back(v), inside.insert(v);
    std::set<ValueId> given;
    for (NodeId n : plain)
      for (ValueId v : whole.node(n).inputs)
        if (!inside.count(v) && whole[v].producer.valid()) given.insert(v);
    out.fragments.push_back(extract(whole, outputs, given));
    out.tail.push_back({kNoNode, static_cast<int>(out.fragments.size()) - 1});
    plain.clear();
  };
  auto of_body = [&](const Node& node) {
    return op_row(node.op).of_model || node.op == ops::lane_exchange_start ||
           (!node.outputs.empty() && is_lane_value(node.outputs[0]) && node.op != ops::wait);
  };
  // Plain nodes count only where an output or another node of the tail reads them: the body has whole values
  // of its own (iota, full).
  PerValue<bool> wanted(whole.values.size());
  for (const auto& output : whole.outputs) wanted[output.value] = true;
  for (NodeId n : whole.node_ids().backward()) {
    const Node& node = whole.node(n);
    bool any = is_lane_node(node);
    for (ValueId v : node.outputs) any = any || wanted[v];
    if (any && !of_body(node))
      for (ValueId v : node.inputs) wanted[v] = true;
  }
  for (NodeId n : whole.node_ids()) {
    const Node& node = whole.node(n);
    if (of_body(node) || head.count(n)) continue;
    bool before = !node.outputs.empty() && after_count[node.outputs[0]] && !after_exchange[node.outputs[0]];
    bool count_chain =
        node.op == ops::lane_count || (before && (node.op == ops::all_reduce_start || node.op == ops::wait));
    if (count_chain) continue;  // run before the body
    if (is_lane_node(node)) {
      flush();
      out.tail.push_back({n, -1});
    } else if (std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return wanted[v]; })) {
      for (ValueId v : node.inputs)
        if (replaced.count(v))
          throw UserError(str("[", node.op, "] ", node.at.text(), ": reads ", replaced[v],
                              " beside its update, which is in place; compute it from the loss's own values, "
                              "or read the state after the step"));
      plain.push_back(n);
    }
  }
  flush();
  if (!streamed_dim.empty()) stream_weights(out, streamed_dim);
  return out;
}

}  // namespace lockstep
