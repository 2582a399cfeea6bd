// Computes lifetimes of a schedule with repeated nodes, and chooses greedily at its peak.
#include "compiler/remat/choices.h"

#include <algorithm>
#include <limits>

#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
constexpr int kNever = std::numeric_limits<int>::max();

class Chooser {
 public:
  explicit Chooser(const Graph& graph)
      : graph_(graph), joint_(joint_of(graph)), kept_(graph.values.size()), repeated_(graph.nodes.size()) {
    for (ValueId v : joint_.saved) kept_[v] = true;
  }

  RematChoices run() {
    RematChoices out;
    for (NodeId n : graph_.node_ids())
      if (joint_.roles[n] != JointRole::other) out.step_cost += joint_.cost[n];
    double cost = 0;
    int64_t values = 0, lowest = std::numeric_limits<int64_t>::max();
    for (;;) {
      measure();
      if (peak_ < lowest) {
        out.frontier.push_back(out.order.size());
        lowest = peak_;
      }
      out.peak.push_back(peak_);
      out.cost.push_back(cost);
      out.values.push_back(values);
      ValueId v = best();
      if (v == kNoValue) return out;
      std::vector<NodeId> chain;
      reach(v, v, chain);
      for (NodeId n : chain) {
        repeated_[n] = true;
        cost += joint_.cost[n];
        values += op_row(graph_.node(n).op).kind != OpKind::view;
      }
      kept_[v] = false;
      out.order.push_back(v);
    }
  }

 private:
  // The buffer that a backward or repeated node reads for v: that of the forward pass, or that of the
  // repetition (numbered after those).
  size_t buffer(ValueId v) const {
    ValueId root = joint_.root[v];
    if (!kept_[root] && in_kept(root)) root = joint_.whole[root];
    NodeId producer = graph_[root].producer;
    bool forward = producer.valid() && joint_.varying[root] && joint_.roles[producer] == JointRole::forward;
    return root.index() + (forward && !kept_[root] ? graph_.values.size() : 0);
  }

  // A piece of a kept value is kept, too.
  bool in_kept(ValueId v, ValueId leaving = kNoValue) const {
    const ValueId whole = joint_.whole[v];
    return (kept_[v] && v != leaving) || (whole != kNoValue && kept_[whole] && whole != leaving);
  }

  // The forward nodes from which v is computed, back to kept values; `leaving` counts as not kept. Nodes that
  // are repeated anyway are omitted. False if one of them may not be repeated.
  bool reach(ValueId v, ValueId leaving, std::vector<NodeId>& chain) {
    ++visit_;
    seen_.resize(graph_.nodes.size());
    std::vector<ValueId> open{v};
    while (!open.empty()) {
      ValueId w = open.back();
      open.pop_back();
      NodeId n = graph_[w].producer;
      if (!n.valid() || !joint_.varying[w] || in_kept(w, leaving) || repeated_[n] || seen_[n] == visit_)
        continue;
      if (!joint_.may_repeat[n]) return false;
      seen_[n] = visit_;
      chain.push_back(n);
      for (ValueId input : graph_.node(n).inputs) open.push_back(input);
    }
    return true;
  }

  // Simulates the schedule with the current choice, and records the lifetime of each buffer.
  void measure() {
    const size_t values = graph_.values.size();
    first_.assign(2 * values, kNever);
    last_.assign(2 * values, -1);
    last_forward_.assign(values, -1);
    first_backward_.assign(values, kNever);
    PerNode<bool> made(graph_.nodes.size());
    int at = 0;
    auto run = [&](NodeId n, bool again, bool backward) {
      const Node& node = graph_.node(n);
      for (ValueId v : node.inputs) {
        size_t b = backward ? buffer(v) : joint_.root[v].index();
        last_[b] = at;
        if (b < values) {
          if (backward)
            first_backward_[b] = std::min(first_backward_[b], at);
          else
            last_forward_[b] = at;
        }
      }
      for (ValueId v : node.outputs) {
        size_t b = joint_.root[v].index() + (again && !kept_[joint_.root[v]] ? values : 0);
        if (again && b < values) continue;  // a second result of a repeated node, which is still kept
        first_[b] = std::min(first_[b], at);
        last_[b] = std::max(last_[b], at);
      }
      ++at;
    };
    for (NodeId n : graph_.node_ids()) {
      if (joint_.roles[n] == JointRole::other) continue;
      const bool backward = joint_.roles[n] == JointRole::backward;
      if (backward) {
        std::vector<NodeId> chain;
        for (ValueId v : graph_.node(n).inputs)
          if (buffer(v) >= values) collect(v, made, chain);
        std::sort(chain.begin(), chain.end());
        for (NodeId c : chain) run(c, true, true);
      }
      run(n, false, backward);
    }
    std::vector<int64_t> change(static_cast<size_t>(at) + 1, 0);
    for (size_t b = 0; b < 2 * values; ++b) {
      int64_t bytes = joint_.bytes[ValueId(b % values)];
      if (!bytes || first_[b] == kNever) continue;
      change[first_[b]] += bytes;
      change[last_[b] + 1] -= bytes;
    }
    int64_t now = 0;
    peak_ = -1;
    for (size_t i = 0; i < change.size(); ++i)
      if ((now += change[i]) > peak_) peak_ = now, peak_at_ = static_cast<int>(i);
  }

  void collect(ValueId v, PerNode<bool>& made, std::vector<NodeId>& chain) {
    std::vector<ValueId> open{v};
    while (!open.empty()) {
      ValueId w = open.back();
      open.pop_back();
      NodeId n = graph_[w].producer;
      if (!n.valid() || !joint_.varying[w] || in_kept(w) || made[n]) continue;
      made[n] = true;
      chain.push_back(n);
      for (ValueId input : graph_.node(n).inputs) open.push_back(input);
    }
  }

  ValueId best() {
    ValueId chosen;
    double most = 0;
    for (ValueId v : joint_.saved) {
      const size_t b = v.index();
      if (!kept_[v] || last_forward_[b] >= peak_at_ || first_[b] >= peak_at_ ||
          first_backward_[b] <= peak_at_)
        continue;
      std::vector<NodeId> chain;
      if (!reach(v, v, chain)) continue;
      auto bytes = static_cast<double>(joint_.bytes[v]);
      double cost = bytes;  // so that free repetitions are still compared
      for (NodeId n : chain) cost += joint_.cost[n];
      if (bytes / cost > most) most = bytes / cost, chosen = v;
    }
    return chosen;
  }

  const Graph& graph_;
  Joint joint_;
  PerValue<bool> kept_;
  PerNode<bool> repeated_;
  std::vector<int> first_, last_;                   // per buffer
  std::vector<int> last_forward_, first_backward_;  // per buffer of the forward pass
  PerNode<int> seen_;
  int visit_ = 0;
  int64_t peak_ = 0;
  int peak_at_ = 0;
};
}  // namespace

RematChoices remat_choices(const Graph& graph) { return Chooser(graph).run(); }

}  // namespace lockstep::compiler
