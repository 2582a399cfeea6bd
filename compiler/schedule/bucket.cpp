// Merges exchanges and gathers into buckets, and puts starts early and waits late.
#include "compiler/schedule/bucket.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/apply.h"
#include "core/ops/op.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

namespace {
struct Bucket {
  std::vector<NodeId> starts;
  int64_t bytes = 0;
  NodeId ready;  // the last producer of an input
};

class Bucketer {
 public:
  Bucketer(const Graph& old, const PassContext& context)
      : old_(old), context_(context), made_(std::make_shared<Builder>()), map_(old.values.size(), kNoValue) {
    for (NodeId n : old_.node_ids()) {
      const Node& node = old_.node(n);
      if (node.op == ops::wait) wait_of_[old_[node.inputs[0]].producer] = n;
      if (node.op != ops::lane_sum) continue;
      const Node& waited = node_at(old_[node.inputs[0]].producer);
      if (waited.op == ops::wait) sums_of_[old_[waited.inputs[0]].producer].push_back(n);
    }
    std::vector<ValueId> of_tail;
    for (const Node& node : old_.nodes)
      if (node.op == ops::lane_exchange_start || node.op == ops::lane_gather_start ||
          op_row(node.op).kind == OpKind::update)
        of_tail.push_back(node.outputs[0]);
    tail_ = depends_on(old_, of_tail);
    stages_ = gather_stages();
    last_stage_ = stages_.empty() ? 0 : *std::max_element(stages_.begin(), stages_.end());
    of_sums_ = gathers_of_sums();
    find_rounds();
  }

  Graph run() {
    copy_inputs();
    for (int stage = 1; stage <= last_stage_; ++stage) gather_weights(gathers(false, stage));
    sum_micro_batches();
    // The loss and the norms are known before the first update, which runs only if they are finite.
    int64_t number = 0;
    for (int round = 0; round < last_round_; ++round)
      number += static_cast<int64_t>(after_round(round, 1).size());
    for (int stage = 1; stage <= last_stage_; ++stage) gather_now(gathers(true, stage, true), number);
    copy_what_decides();
    for (int round = 0; round <= last_round_; ++round) update(round);
    for (const auto& output : old_.outputs)
      made_->graph.add_output(output.kind, output.name, at(output.value));
    return std::move(made_->graph);
  }

 private:
  // Buckets that start in order, each as soon as its inputs exist.
  struct Queue {
    std::vector<Bucket> buckets;
    std::vector<Tensor> handles = {};  // of started buckets
    bool empty() const { return handles.size() == buckets.size(); }
    const Bucket& next() const { return buckets[handles.size()]; }
  };
  void start_next(Queue& queue) {
    queue.handles.push_back(start(queue.next(), static_cast<int64_t>(queue.handles.size())));
  }
  void start_ready(Queue& queue, NodeId done) {
    while (!queue.empty() && queue.next().ready <= done) start_next(queue);
  }
  void start_rest(Queue& queue) {
    while (!queue.empty()) start_next(queue);
  }
  void wait_for_all(const Queue& queue) {
    for (size_t b = 0; b < queue.buckets.size(); ++b) wait(queue.buckets[b], queue.handles[b]);
  }

  void copy_inputs() {
    made_->graph.mesh = old_.mesh;
    for (const auto& input : old_.inputs) {
      const Value& value = old_[input.value];
      ValueId v = made_->graph.add_input(input.kind, input.name, value.dtype, value.shape);
      made_->graph[v].layout = value.layout;
      map_[input.value] = v;
    }
  }
  // Buckets of values that a round of the tail computes.
  std::vector<Bucket> after_round(int round, int stage) const {
    return buckets_of(ops::all_gather_start, [&](const Node& node) {
      return in_tail(node, tail_) && stages_[node.outputs[0]] == stage && !of_sums_.count(node.outputs[0]) &&
             rounds_[node.outputs[0]] == round + 1;
    });
  }
  // Gathers of one stage, before or after the sums over lanes; `soon`: those of unmodified sums.
  std::vector<Bucket> gathers(bool after_sums, int stage, bool soon = false) const {
    return buckets_of(ops::all_gather_start, [&](const Node& node) {
      return in_tail(node, tail_) == after_sums && stages_[node.outputs[0]] == stage &&
             (of_sums_.count(node.outputs[0]) > 0) == soon;
    });
  }
  static bool travels(const Node& node) {
    return node.op == ops::lane_exchange_start || node.op == ops::all_gather_start;
  }

  // The part before the sums. Each exchange starts as soon as its last gradient exists. Then come, bucket by
  // bucket, its wait and its sums.
  void sum_micro_batches() {
    Queue exchanges{buckets_of(ops::lane_exchange_start, [](const Node&) { return true; })};
    for (NodeId n : old_.node_ids()) {
      const Node& node = old_.node(n);
      if (!in_tail(node, tail_) && !travels(node) && !copied(node)) copy(node);
      start_ready(exchanges, n);
    }
    start_rest(exchanges);
    for (size_t b = 0; b < exchanges.buckets.size(); ++b) {
      wait(exchanges.buckets[b], exchanges.handles[b]);
      for (NodeId s : exchanges.buckets[b].starts)
        for (NodeId reader : readers_of_wait(s)) copy(node_at(reader));
    }
  }

  // The part after the sums: the computation of a round, then its gathers, each started when its input
  // exists. The next round reads the gathered values.
  void update(int round) {
    Queue made{after_round(round, 1)};
    for (NodeId n : old_.node_ids()) {
      const Node& node = old_.node(n);
      if (in_tail(node, tail_) && !travels(node) && !copied(node) && rounds_[node.outputs[0]] == round &&
          !(node.op == ops::wait && waits_for_gather(node)))
        copy(node);
      start_ready(made, n);
    }
    start_rest(made);
    wait_for_all(made);
    // Over a second dim: all buckets start before the first wait.
    for (int stage = 2; stage <= last_stage_; ++stage) {
      Queue more{after_round(round, stage)};
      start_rest(more);
      wait_for_all(more);
    }
  }
  // The round of each value of the tail: the number of gathers on the longest path to it, where gathers over
  // one dim after another count as one. An update's round is at least that of the readers of the state that
  // it replaces in place.
  void find_rounds() {
    rounds_ = PerValue<int>(old_.values.size(), 0);
    PerValue<int> read(old_.values.size(), 0);  // the last round that reads a state, or rows of it
    PerValue<ValueId> state(old_.values.size(), kNoValue);
    for (const auto& input : old_.inputs)
      if (input.kind == InputKind::state) state[input.value] = input.value;
    for (const Node& node : old_.nodes) {
      int round = 0;
      for (ValueId v : node.inputs) round = std::max(round, rounds_[v]);
      if (op_row(node.op).kind == OpKind::update)
        for (int i : replaced_inputs(node))
          if (i != kReplacesNothing)
            if (const ValueId old = state[node.inputs[i]]; old != kNoValue)
              round = std::max(round, read[old]);
      if (in_tail(node, tail_))
        for (ValueId v : node.inputs)
          if (state[v] != kNoValue) read[state[v]] = std::max(read[state[v]], round);
      if (node.op == ops::local_rows) state[node.outputs[0]] = state[node.inputs[0]];
      if (node.op == ops::all_gather_start && in_tail(node, tail_) && !of_sums_.count(node.outputs[0]) &&
          stages_[node.outputs[0]] == 1)
        ++round;
      for (ValueId v : node.outputs) rounds_[v] = round;
      last_round_ = std::max(last_round_, round);
    }
  }

  const Node& node_at(NodeId n) const { return old_.node(n); }
  ValueId at(ValueId old) const {
    LS_CHECK(map_[old] != kNoValue, "bucket: %", old, " is read before it is made");
    return map_[old];
  }
  bool in_tail(const Node& node, const PerValue<bool>& tail) const {
    return !node.outputs.empty() && tail[node.outputs[0]];
  }
  bool copied(const Node& node) const { return !node.outputs.empty() && map_[node.outputs[0]] != kNoValue; }
  void copy(const Node& node) {
    std::vector<Tensor> inputs;
    for (ValueId v : node.inputs) inputs.emplace_back(made_, at(v));
    auto made = apply_again(node, inputs, made_);
    for (size_t i = 0; i < made.size(); ++i) map_[node.outputs[i]] = made[i].id();
  }
  const std::vector<NodeId>& readers_of_wait(NodeId start) const {
    static const std::vector<NodeId> none;
    auto found = sums_of_.find(start);
    return found == sums_of_.end() ? none : found->second;
  }

  bool waits_for_gather(const Node& wait) const {
    return node_at(old_[wait.inputs[0]].producer).op == ops::all_gather_start;
  }
  // Per value: the number of gathers on the longest path to it, including itself, since the last node that is
  // not a gather. Rows are gathered over one dim after another.
  PerValue<int> gather_stages() const {
    PerValue<int> out(old_.values.size(), 0);
    for (const Node& node : old_.nodes) {
      if (node.op == ops::all_gather_start) {
        for (ValueId v : node.inputs) out[node.outputs[0]] = std::max(out[node.outputs[0]], out[v]);
        ++out[node.outputs[0]];
      } else if (node.op == ops::wait && waits_for_gather(node)) {
        for (ValueId v : node.outputs) out[v] = out[node.inputs[0]];
      }
    }
    return out;
  }

  // Weights that the body reads whole and that are stored as split rows: first their rounding, then their
  // gathers, each of which starts before the first wait.
  void gather_weights(const std::vector<Bucket>& weights) {
    std::set<NodeId> before;
    std::vector<NodeId> open;
    for (const Bucket& bucket : weights)
      for (NodeId s : bucket.starts) open.push_back(s);
    while (!open.empty()) {
      NodeId n = open.back();
      open.pop_back();
      for (ValueId v : node_at(n).inputs)
        if (NodeId made = old_[v].producer;
            made.valid() && !copied(node_at(made)) && before.insert(made).second)
          open.push_back(made);
    }
    for (NodeId n : before) copy(node_at(n));
    int64_t number = 0;
    gather_now(weights, number);
  }
  void gather_now(const std::vector<Bucket>& buckets, int64_t& number) {
    std::vector<Tensor> handles;
    for (const Bucket& bucket : buckets) handles.push_back(start(bucket, number++));
    for (size_t b = 0; b < buckets.size(); ++b) wait(buckets[b], handles[b]);
  }

  // Handles of the gathers of unmodified sums over lanes, such as the loss's; not of results of updates.
  std::set<ValueId> gathers_of_sums() const {
    std::set<ValueId> out;
    for (const Node& node : old_.nodes) {
      if (node.op != ops::all_gather_start || !old_[node.inputs[0]].producer.valid()) continue;
      const Node& made = node_at(old_[node.inputs[0]].producer);
      if (made.op == ops::lane_sum || (made.op == ops::wait && out.count(made.inputs[0])))
        out.insert(node.outputs[0]);
    }
    return out;
  }
  // The values from which the step's own loss and the norms of gradients are computed.
  void copy_what_decides() {
    std::set<NodeId> needed;
    std::vector<ValueId> open;
    for (const auto& output : old_.outputs)
      if (output.kind == OutputKind::metric && output.name == "loss") open.push_back(output.value);
    for (const Node& node : old_.nodes)
      if (node.op == ops::norm_of_limbs) open.push_back(node.outputs[0]);
    while (!open.empty()) {
      const NodeId made = old_[open.back()].producer;
      open.pop_back();
      if (!made.valid() || copied(node_at(made)) || !needed.insert(made).second) continue;
      for (ValueId v : node_at(made).inputs) open.push_back(v);
    }
    for (NodeId n : needed) copy(node_at(n));
  }

  template <class Wanted>
  std::vector<Bucket> buckets_of(OpId op, Wanted wanted) const {
    std::vector<std::pair<NodeId, NodeId>> order;  // {ready, start}
    for (NodeId n : old_.node_ids())
      if (node_at(n).op == op && wanted(node_at(n)))
        order.emplace_back(old_[old_.node(n).inputs[0]].producer, n);
    std::sort(order.begin(), order.end());
    std::vector<Bucket> out;
    for (auto [ready, start] : order) {
      const Node& node = node_at(start);
      const bool as_sums = op == ops::lane_exchange_start && !context_.gradients_travel_as_they_are;
      int64_t bytes = numel(old_[node.inputs[0]].shape) *
                      static_cast<int64_t>(as_sums ? sizeof(float) : size_of(old_[node.inputs[0]].dtype));
      bool fits = !out.empty() &&
                  out.back().bytes + bytes <= std::max<int64_t>(context_.options.bucket_bytes, 1) &&
                  node_at(out.back().starts[0]).attrs == node.attrs &&
                  old_[node_at(out.back().starts[0]).inputs[0]].dtype == old_[node.inputs[0]].dtype;
      if (!fits) out.push_back({});
      out.back().starts.push_back(start);
      out.back().bytes += bytes;
      out.back().ready = std::max(out.back().ready, ready);
    }
    return out;
  }

  Tensor start(const Bucket& bucket, int64_t index) {
    std::vector<Tensor> inputs;
    for (NodeId s : bucket.starts) inputs.emplace_back(made_, at(node_at(s).inputs[0]));
    Attrs attrs = node_at(bucket.starts[0]).attrs;
    attrs.set("bucket", index);
    return apply_at(node_at(bucket.starts[0]).op, inputs, attrs, node_at(bucket.starts[0]).at, made_)[0];
  }
  void wait(const Bucket& bucket, Tensor handle) {
    std::vector<std::string> types;
    std::vector<const Node*> waits;
    for (NodeId s : bucket.starts) {
      const Node& node = node_at(wait_of_.at(s));
      waits.push_back(&node);
      types.push_back(shape_text(old_[node.outputs[0]].dtype, old_[node.outputs[0]].shape));
    }
    auto made = apply_at(ops::wait, {handle}, {{"types", Attr(join(types, ";"))}}, waits[0]->at, made_);
    for (size_t i = 0; i < waits.size(); ++i) map_[waits[i]->outputs[0]] = made[i].id();
  }

  const Graph& old_;
  const PassContext& context_;
  std::shared_ptr<Builder> made_;
  PerValue<ValueId> map_;
  PerValue<bool> tail_;   // computed from exchanged gradients, or by an update
  PerValue<int> stages_;  // see gather_stages
  PerValue<int> rounds_;  // see find_rounds
  int last_stage_ = 0, last_round_ = 0;
  std::set<ValueId> of_sums_;                      // see gathers_of_sums
  std::map<NodeId, NodeId> wait_of_;               // start -> its wait
  std::map<NodeId, std::vector<NodeId>> sums_of_;  // exchange -> the sums over lanes that read its result
};
}  // namespace

Graph bucket(Graph graph, const PassContext& context) { return Bucketer(graph, context).run(); }

}  // namespace lockstep::compiler
