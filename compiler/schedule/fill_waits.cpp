// List scheduling of a phase with two clocks, one of the computation and one of the link.
#include "compiler/schedule/fill_waits.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
// How many collectives a node may pass: a layer of a transformer has four in each direction, and two small
// ones.
constexpr int kAhead = 8;
// Held products take at most the time of this many coming collectives. Otherwise their gradients, and weights
// of the next products, would travel in bursts.
constexpr int kComing = 4;

bool is_half(const Node& node, CollectiveHalf half) {
  return op_row(node.op).of_model && op_row(node.op).half == half;
}
bool is_product(const Node& node) { return node.op == ops::dot || node.op == ops::linear; }

// Flops of products and attention; other nodes count as taking no time.
double flops_of(const Graph& graph, const Node& node) {
  auto out = [&] { return static_cast<double>(numel(graph[node.outputs[0]].shape)); };
  auto size = [&](size_t i, int64_t d) { return static_cast<double>(graph[node.inputs[i]].shape[d]); };
  if (node.op == ops::linear) return 2 * out() * size(1, 1);
  if (node.op == ops::dot) {
    double inner = 1;
    for (int64_t d : node.attrs.list("lhs_contract")) inner *= size(0, d);
    return 2 * out() * inner;
  }
  const double pairs = node.attrs.flag("causal") ? 0.5 : 1;  // of queries and keys
  if (node.op == ops::sdpa) return 4 * pairs * out() * size(1, 1);
  if (node.op == ops::sdpa_grad) return 10 * pairs * out() * size(2, 1);
  return 0;
}

class Order {
 public:
  Order(const Graph& graph, const TravelRates& rates)
      : graph_(graph),
        rates_(rates),
        users_(users_of(graph)),
        missing_(graph.nodes.size()),
        stage_(graph.nodes.size()),
        free_(graph.nodes.size()),
        held_(graph.nodes.size()),
        late_(graph.nodes.size()),
        done_(graph.nodes.size()),
        arrival_(graph.values.size()) {
    count_stages();
    find_free();
    find_held();
    for (NodeId n : graph.node_ids()) {
      std::set<NodeId> makers;
      for (ValueId v : graph.node(n).inputs)
        if (NodeId maker = graph[v].producer; maker.valid() && !free_[maker]) makers.insert(maker);
      missing_[n] = static_cast<int>(makers.size());
      if (makers.empty() && !free_[n]) ready_.insert(n);
    }
  }

  std::vector<NodeId> run() {
    while (!ready_.empty()) {
      while (next_start_ < starts_.size() && done_[starts_[next_start_]]) ++next_start_;
      while (front_ < graph_.nodes.size() && passes(NodeId(front_))) ++front_;
      put(next());
    }
    for (NodeId n : graph_.node_ids()) put_free(n);
    LS_CHECK(order_.size() == graph_.nodes.size(), "nodes of a phase wait for each other");
    return std::move(order_);
  }

 private:
  // Counts, per node, the collectives that start before it.
  void count_stages() {
    int stage = 0;
    for (NodeId n : graph_.node_ids())
      if (is_half(graph_.node(n), CollectiveHalf::start)) starts_.push_back(n);
    for (NodeId n : graph_.node_ids()) stage_[n] = stage += is_half(graph_.node(n), CollectiveHalf::start);
  }
  // Finds values computed from inputs only, without products: from weights that are gathered when needed, and
  // constants. They come right before their first reader.
  void find_free() {
    for (NodeId n : graph_.node_ids()) {
      const Node& node = graph_.node(n);
      free_[n] = !is_product(node) && op_row(node.op).half == CollectiveHalf::none &&
                 std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
                   return !graph_[v].producer.valid() || free_[graph_[v].producer];
                 });
    }
  }
  // Finds products that no start depends on, and values computed from them.
  void find_held() {
    PerNode<bool> started(graph_.nodes.size());  // whether it reaches a start
    for (NodeId n : graph_.node_ids().backward()) {
      const Node& node = graph_.node(n);
      started[n] = is_half(node, CollectiveHalf::start);
      for (ValueId v : node.outputs)
        for (NodeId user : users_[v]) started[n] = started[n] || started[user];
      held_[n] = is_product(node) && !started[n];
    }
    for (NodeId n : graph_.node_ids()) {
      late_[n] = held_[n];
      for (ValueId v : graph_.node(n).inputs)
        late_[n] = late_[n] || (graph_[v].producer.valid() && late_[graph_[v].producer]);
    }
  }

  bool passes(NodeId n) const { return done_[n] || late_[n] || free_[n]; }
  // Number of stages between a node and the first unfinished one.
  int ahead(NodeId n) const { return front_ < graph_.nodes.size() ? stage_[n] - stage_[NodeId(front_)] : 0; }
  bool has_arrived(NodeId wait) const { return arrival_[graph_.node(wait).inputs[0]] <= now_; }

  // Seconds of the collectives in flight, and of the next few to start.
  double coming() const {
    double seconds = std::max(0.0, link_ - now_);
    int count = 0;
    for (size_t s = next_start_; s < starts_.size() && count < kComing; ++s)
      if (!done_[starts_[s]]) seconds += seconds_of(graph_.node(starts_[s])), ++count;
    return seconds;
  }

  NodeId next() const {
    NodeId first, filling, soonest;
    double held = 0;
    for (NodeId n : ready_) {
      if (ahead(n) > kAhead) break;
      const Node& node = graph_.node(n);
      if (is_half(node, CollectiveHalf::start)) return n;
      if (held_[n]) {
        if (ahead(n) < -kAhead) return n;
        if (!filling.valid())
          filling = n;
        else
          held += flops_of(graph_, node) / rates_.flops;
      } else if (is_half(node, CollectiveHalf::wait) && !has_arrived(n)) {
        if (!soonest.valid() || arrival_[node.inputs[0]] < arrival_[graph_.node(soonest).inputs[0]])
          soonest = n;
      } else if (!first.valid()) {
        first = n;
      }
    }
    if (filling.valid() && held >= coming()) return filling;
    for (NodeId n : {first, filling, soonest})
      if (n.valid()) return n;
    return *ready_.begin();
  }

  void put_free(NodeId n) {
    if (!free_[n] || done_[n]) return;
    done_[n] = true;
    for (ValueId v : graph_.node(n).inputs)
      if (graph_[v].producer.valid()) put_free(graph_[v].producer);
    order_.push_back(n);
  }
  void put(NodeId n) {
    const Node& node = graph_.node(n);
    for (ValueId v : node.inputs)
      if (graph_[v].producer.valid()) put_free(graph_[v].producer);
    ready_.erase(n);
    done_[n] = true;
    order_.push_back(n);
    if (is_half(node, CollectiveHalf::start))
      arrival_[node.outputs[0]] = link_ = std::max(now_, link_) + seconds_of(node);
    else if (is_half(node, CollectiveHalf::wait))
      now_ = std::max(now_, arrival_[node.inputs[0]]);
    else
      now_ += flops_of(graph_, node) / rates_.flops;
    std::set<NodeId> readers;
    for (ValueId v : node.outputs) readers.insert(users_[v].begin(), users_[v].end());
    for (NodeId reader : readers)
      if (--missing_[reader] == 0) ready_.insert(reader);
  }
  // For a start: time of the bytes that a rank receives, from its wait's output.
  double seconds_of(const Node& start) const {
    const Value& in = graph_[start.inputs[0]];
    const auto readers = users_[start.outputs[0]];
    if (readers.empty()) return rates_.latency;
    const Value& out = graph_[graph_.node(readers[0]).outputs[0]];
    const auto ranks = static_cast<double>(out.shape.empty() ? 1 : out.shape[0]);
    const double own = static_cast<double>(numel(in.shape)) * static_cast<double>(size_of(in.dtype));
    const double received =
        start.op == ops::model_gather_start ? own * (ranks - 1) : own * (ranks - 1) / ranks;
    return rates_.latency + received / rates_.bandwidth;
  }

  const Graph& graph_;
  const TravelRates rates_;
  PerValue<std::vector<NodeId>> users_;
  PerNode<int> missing_;  // number of inputs that do not exist yet
  PerNode<int> stage_;
  PerNode<bool> free_, held_, late_, done_;
  PerValue<double> arrival_;  // of a start's handle
  std::set<NodeId> ready_;
  std::vector<NodeId> order_, starts_;
  size_t next_start_ = 0;
  size_t front_ = 0;  // the first node that is not scheduled yet
  double now_ = 0, link_ = 0;
};
}  // namespace

Graph fill_waits(Graph graph, const PassContext& context) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [](const Node& node) { return is_half(node, CollectiveHalf::start); }))
    return graph;
  return reorder(graph, Order(graph, context.options.travel).run());
}

}  // namespace lockstep::compiler
