// Cuts the typed program into count, seed, body and tail.
#include "compiler/schedule/phases.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

namespace {
// Work that the body may as well repeat: no arithmetic, or a convert that only makes the value larger.
bool trivial(const Graph& graph, const Node& node) {
  OpKind kind = op_row(node.op).kind;
  return kind == OpKind::view || kind == OpKind::creation || node.op == ops::take ||
         (node.op == ops::convert &&
          size_of(graph[node.outputs[0]].dtype) > size_of(graph[node.inputs[0]].dtype));
}

// Collectives of model dims run inside phases, among plain nodes.
bool is_lane_node(const Node& node) {
  if (op_row(node.op).of_model) return false;
  OpKind kind = op_row(node.op).kind;
  return kind == OpKind::lanes || kind == OpKind::collective || kind == OpKind::update;
}
// A count is taken before the rest of the step, which divides by it. It may depend only on data, and on state
// that does not change.
void refuse_trained_state(const Graph& whole, const Phase& phase, const Node& node) {
  for (ValueId v : phase.inputs)
    for (const auto& input : whole.inputs)
      if (input.value == gathered_input(whole, v) && input.kind == InputKind::state &&
          whole.find_output(input.name) != kNoValue && whole.find_output(input.name) != input.value)
        throw UserError(str(
            "[sum_lanes] ", node.at.text(), ": the sum over micro-batches of ",
            shape_text(whole[node.inputs[0]].dtype, whole[node.inputs[0]].shape), " reads the state \"",
            input.name,
            "\", which the step replaces, and integers are summed before the step computes with its weights, "
            "because losses are divided by such counts: a loss's count "
            "must depend on data and on buffers that stay; a metric "
            "that depends on weights is summed as f32: convert it first"));
}

// Cuts a program from its sums over micro-batches outward.
class PhaseCutter {
 public:
  explicit PhaseCutter(const Graph& whole)
      : whole_(whole), users_(users_of(whole)), state_seen_(whole.values.size()) {
    out_.whole = whole;
  }

  Phases cut() {
    find_sums();
    find_head();
    find_fetches();
    find_counts();
    find_seeds_of_counts();
    find_seeds_of_state();
    std::set<ValueId> given = reduced_counts();
    given.insert(gathered_.begin(), gathered_.end());
    out_.seed = extract(whole_, {seeds_.begin(), seeds_.end()}, given);
    std::set<ValueId> made_before = seeds_;
    made_before.insert(gathered_.begin(), gathered_.end());
    for (const auto& fetch : out_.fetches) made_before.insert(fetch.rows);
    out_.body = extract(whole_, gradients_, made_before);
    cut_tail();
    return std::move(out_);
  }

 private:
  // A value of each micro-batch.
  bool is_lane_value(ValueId v) const {
    for (const auto& [dim, placement] : whole_[v].layout.splits)
      if (placement.kind == Placement::Kind::per_lane) return true;
    return false;
  }
  bool makes_lane_value(const Node& node) const {
    return !node.outputs.empty() && is_lane_value(node.outputs[0]);
  }
  // Known before the body runs, which divides by counts.
  bool between_sums(ValueId v) const { return after_count_[v] && !after_exchange_[v]; }
  bool of_body(const Node& node) const {
    return node.op == ops::lane_exchange_start || (makes_lane_value(node) && node.op != ops::wait);
  }

  void find_sums() {
    std::vector<ValueId> counted, exchanged;
    for (NodeId n : whole_.node_ids()) {
      const Node& node = whole_.node(n);
      if (node.op == ops::lane_count) {
        out_.counts.push_back(n);
        counted.push_back(node.outputs[0]);
      }
      if (node.op == ops::lane_exchange_start) {
        add_bucket(n);
        exchanged.push_back(node.outputs[0]);
      }
      if (node.op == ops::lane_gather_start) {
        out_.rows.push_back({n, body_output(node.inputs[0]), body_output(node.inputs[1])});
        exchanged.push_back(node.outputs[0]);
      }
      if (op_row(node.op).kind == OpKind::update)
        exchanged.insert(exchanged.end(), node.outputs.begin(), node.outputs.end());
    }
    after_count_ = depends_on(whole_, counted), after_exchange_ = depends_on(whole_, exchanged);
  }
  void add_bucket(NodeId exchange) {
    out_.exchanges.push_back(exchange);
    out_.buckets.emplace_back();
    for (ValueId v : whole_.node(exchange).inputs) out_.buckets.back().push_back(body_output(v));
  }
  int body_output(ValueId v) {
    const auto found = std::find(gradients_.begin(), gradients_.end(), v);
    const auto at = static_cast<int>(found - gradients_.begin());
    if (found == gradients_.end()) gradients_.push_back(v);
    return at;
  }

  void find_counts() {
    std::vector<ValueId> counts;
    for (NodeId n : out_.counts) {
      const Node& node = whole_.node(n);
      counts.push_back(node.inputs[0]);
      refuse_trained_state(whole_, extract(whole_, {node.inputs[0]}, gathered_), node);
    }
    for (auto& fetch : out_.fetches) {
      if (!whole_[fetch.ids].producer.valid()) continue;
      const auto found = std::find(counts.begin(), counts.end(), fetch.ids);
      fetch.counted = static_cast<int>(found - counts.begin());
      if (found == counts.end()) counts.push_back(fetch.ids);
    }
    out_.count = extract(whole_, counts, gathered_);
  }

  bool is_split(ValueId table) const {
    const auto& splits = whole_[table].layout.splits;
    return std::any_of(splits.begin(), splits.end(),
                       [](const auto& one) { return one.second.kind == Placement::Kind::shard; });
  }
  void find_fetches() {
    std::vector<ValueId> copied;
    std::set<ValueId> ids;
    for (const Node& node : whole_.nodes) {
      if (node.op != ops::take || !node.attrs.flag("fetch")) continue;
      Phases::Fetch& fetch = out_.fetches.emplace_back();
      fetch.table = node.inputs[0], fetch.ids = node.inputs[1], fetch.rows = node.outputs[0];
      if (is_split(fetch.table)) continue;
      fetch.copied = static_cast<int>(copied.size());
      copied.push_back(fetch.rows), ids.insert(fetch.ids);
    }
    out_.copies = extract(whole_, copied, ids);
  }
  // Rows of a table of the state, by ids that come from a sum.
  bool takes_rows(const Node& node) const {
    return node.op == ops::take && !whole_[node.inputs[0]].producer.valid() &&
           after_exchange_[node.inputs[1]];
  }

  // Counts that are summed over all ranks.
  std::set<ValueId> reduced_counts() const {
    std::set<ValueId> out;
    for (const Node& node : whole_.nodes)
      for (ValueId v : node.outputs)
        if (node.op == ops::wait && between_sums(v)) out.insert(v);
    return out;
  }

  // Weights stored as split rows: gathers that depend on no gradient, and their inputs.
  void find_head() {
    std::set<NodeId> head;
    for (NodeId n : whole_.node_ids()) {
      const Node& node = whole_.node(n);
      if (node.op == ops::all_gather_start && !after_exchange_[node.outputs[0]]) {
        head.insert(n);
        for (ValueId v : node.inputs)
          if (NodeId rounding = rounding_of(v, head); rounding.valid()) head.insert(rounding);
      }
      if (node.op == ops::wait && head.count(whole_[node.inputs[0]].producer)) {
        head.insert(n);
        gathered_.insert(node.outputs.begin(), node.outputs.end());
      }
    }
    out_.head.assign(head.begin(), head.end());
  }
  // The convert between a parameter and its gather; kNoNode if rows are gathered as stored, or were already
  // gathered over another dim.
  NodeId rounding_of(ValueId rows, const std::set<NodeId>& head) const {
    const NodeId made = whole_[rows].producer;
    if (!made.valid()) return kNoNode;
    const Node& node = whole_.node(made);
    if (node.op == ops::wait && head.count(made)) return kNoNode;
    if (node.op != ops::convert || whole_[node.inputs[0]].producer.valid())
      throw UserError(str("[", node.op, "] ", node.at.text(),
                          ": reads rows of the state before the loss; only a convert of a parameter may"));
    return made;
  }

  // A value that is broadcast to more elements than a batch has is broadcast in the body.
  ValueId before_broadcast(ValueId v) const {
    int64_t most = 0;
    for (const auto& input : whole_.inputs)
      if (input.kind == InputKind::batch) most = std::max(most, numel(whole_[input.value].shape));
    while (whole_[v].producer.valid() && whole_.producer(v).op == ops::broadcast &&
           numel(whole_[v].shape) > most)
      v = whole_.producer(v).inputs[0];
    return v;
  }
  // Whole values that depend on a count and that the body reads.
  void find_seeds_of_counts() {
    for (const Node& node : whole_.nodes)
      for (ValueId read : node.inputs) {
        const ValueId v = before_broadcast(read);
        const bool made_once = whole_[v].producer.valid() && !is_lane_value(v) && between_sums(v);
        if (makes_lane_value(node) && node.op != ops::lane_count && made_once) seeds_.insert(v);
      }
  }
  // Whole values that depend only on state and are not trivial, such as weights rounded to bf16, if the body
  // reads them, directly or through trivial nodes.
  void find_seeds_of_state() {
    std::vector<ValueId> state;
    for (const auto& input : whole_.inputs)
      if (input.kind == InputKind::state) state.push_back(input.value);
    after_state_ = depends_on(whole_, state);
    for (const Node& node : whole_.nodes)
      if (makes_lane_value(node) && node.op != ops::lane_count)
        for (ValueId v : node.inputs) seed_of_state(v);
  }
  void seed_of_state(ValueId v) {
    if (state_seen_[v] || !whole_[v].producer.valid() || is_lane_value(v) || !after_state_[v] ||
        after_count_[v] || after_exchange_[v])
      return;
    state_seen_[v] = true;
    const Node& node = whole_.producer(v);
    if (is_lane_node(node)) return;
    if (!trivial(whole_, node)) {
      seeds_.insert(v);
      return;
    }
    for (ValueId input : node.inputs) seed_of_state(input);
  }

  // The rest, in order: plain nodes become fragments between lane nodes.
  void cut_tail() {
    std::set<ValueId> replaced;  // state that earlier updates replace in place
    const PerValue<bool> wanted = read_by_tail();
    const std::set<NodeId> head(out_.head.begin(), out_.head.end());
    std::vector<NodeId> plain;
    std::set<NodeId> waited;
    for (NodeId n : whole_.node_ids()) {
      const Node& node = whole_.node(n);
      if (of_body(node) || head.count(n) || reduces_count(node) || waited.count(n)) continue;
      if (is_lane_node(node)) {
        add_waits(plain, waited);
        add_fragment(plain);
        out_.tail.push_back({n, -1});
        if (op_row(node.op).kind == OpKind::update)
          for (int i : replaced_inputs(node))
            if (i != kReplacesNothing) replaced.insert(node.inputs[i]);
      } else if (std::any_of(node.outputs.begin(), node.outputs.end(),
                             [&](ValueId v) { return wanted[v]; })) {
        for (ValueId v : node.inputs)
          LS_CHECK(!replaced.count(v), node.op, " at ", node.at.text(), " reads %", v,
                   " behind its update, which is in place");
        if (takes_rows(node))
          add_take(n, plain);
        else
          plain.push_back(n);
      }
    }
    add_fragment(plain);
  }
  // A fragment also waits for the collectives on model dims that it starts.
  void add_waits(std::vector<NodeId>& plain, std::set<NodeId>& waited) const {
    const std::set<NodeId> inside(plain.begin(), plain.end());
    for (NodeId n : inside)
      if (const Node& start = whole_.node(n);
          op_row(start.op).of_model && op_row(start.op).half == CollectiveHalf::start)
        for (NodeId wait : users_[start.outputs[0]])
          if (!inside.count(wait)) plain.push_back(wait), waited.insert(wait);
  }
  // Plain nodes count only if an output or another node of the tail reads them; the body also has whole
  // values of its own (iota, full).
  PerValue<bool> read_by_tail() const {
    PerValue<bool> wanted(whole_.values.size());
    for (const auto& output : whole_.outputs) wanted[output.value] = true;
    for (NodeId n : whole_.node_ids().backward()) {
      const Node& node = whole_.node(n);
      bool any = is_lane_node(node);
      for (ValueId v : node.outputs) any = any || wanted[v];
      if (any && !of_body(node))
        for (ValueId v : node.inputs) wanted[v] = true;
    }
    return wanted;
  }
  // Whether it runs before the body.
  bool reduces_count(const Node& node) const {
    return node.op == ops::lane_count ||
           ((node.op == ops::all_reduce_start || node.op == ops::wait) && between_sums(node.outputs[0]));
  }
  // A take from a whole table gets its own fragment; a take from a split table is a tail node. So the
  // fragment that computes with the rows is the same on every mesh.
  void add_take(NodeId n, std::vector<NodeId>& plain) {
    const Node& take = whole_.node(n);
    if (std::find(plain.begin(), plain.end(), whole_[take.inputs[1]].producer) != plain.end())
      add_fragment(plain);
    if (is_split(take.inputs[0]))
      out_.tail.push_back({n, -1});
    else
      takes_.push_back(n);
  }
  void add_fragment(std::vector<NodeId>& plain) {
    if (!takes_.empty()) {
      add_fragment_of(takes_);
      out_.tail.back().takes = true;
    }
    add_fragment_of(plain);
  }
  // The fragment's outputs are the values with other readers.
  void add_fragment_of(std::vector<NodeId>& plain) {
    if (plain.empty()) return;
    const std::set<NodeId> nodes(plain.begin(), plain.end());
    std::vector<ValueId> outputs;
    std::set<ValueId> inside, given;
    for (NodeId n : plain)
      for (ValueId v : whole_.node(n).outputs) {
        inside.insert(v);
        if (std::any_of(users_[v].begin(), users_[v].end(),
                        [&](NodeId user) { return !nodes.count(user); }) ||
            is_output(v))
          outputs.push_back(v);
      }
    for (NodeId n : plain)
      for (ValueId v : whole_.node(n).inputs)
        if (!inside.count(v) && whole_[v].producer.valid()) given.insert(v);
    out_.fragments.push_back(extract(whole_, outputs, given));
    out_.tail.push_back({kNoNode, static_cast<int>(out_.fragments.size()) - 1});
    plain.clear();
  }
  bool is_output(ValueId v) const {
    return std::any_of(whole_.outputs.begin(), whole_.outputs.end(),
                       [&](const GraphOutput& output) { return output.value == v; });
  }

  const Graph& whole_;
  PerValue<std::vector<NodeId>> users_;
  Phases out_;
  std::vector<ValueId> gradients_;  // outputs of the body
  std::vector<NodeId> takes_;       // of rows of whole tables, before the next fragment
  std::set<ValueId> gathered_, seeds_;
  // after_exchange_: computed from exchanged values, or by an update.
  PerValue<bool> after_count_, after_exchange_, after_state_, state_seen_;
};
}  // namespace

Phases cut_phases(const Graph& whole) { return PhaseCutter(whole).cut(); }

}  // namespace lockstep::compiler
