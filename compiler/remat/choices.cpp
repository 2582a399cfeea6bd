// Lifetimes of a schedule with repeated nodes, and the greedy choice at its peak.
#include "compiler/remat/choices.h"

#include <algorithm>
#include <limits>

#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep {

namespace {
size_t u(int64_t i) { return static_cast<size_t>(i); }
constexpr int kNever = std::numeric_limits<int>::max();

class Chooser {
 public:
  explicit Chooser(const Graph& graph)
      : graph_(graph), joint_(joint_of(graph)), kept_(graph.values.size()), repeated_(graph.nodes.size()) {
    for (ValueId v : joint_.saved) kept_[u(v)] = true;
  }

  RematChoices run() {
    RematChoices out;
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
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
        repeated_[u(n)] = true;
        cost += joint_.cost[u(n)];
        values += op_row(graph_.nodes[u(n)].op).kind != OpKind::view;
      }
      kept_[u(v)] = false;
      out.order.push_back(v);
    }
  }

 private:
  // The buffer that a backward or repeated node reads for v: that of the forward pass, or (numbered behind
  // those) of the repetition.
  size_t buffer(ValueId v) const {
    ValueId root = joint_.root[u(v)];
    NodeId producer = graph_[root].producer;
    bool forward =
        producer >= 0 && joint_.varying[u(root)] && joint_.roles[u(producer)] == JointRole::forward;
    return u(root) + (forward && !kept_[u(root)] ? graph_.values.size() : 0);
  }

  // Forward nodes that v is computed from, back to what is kept; `leaving` counts as not kept. Nodes that are
  // repeated anyway are left out. False where one of them may not be repeated.
  bool reach(ValueId v, ValueId leaving, std::vector<NodeId>& chain) {
    ++visit_;
    seen_.resize(graph_.nodes.size(), 0);
    std::vector<ValueId> open{v};
    while (!open.empty()) {
      ValueId w = open.back();
      open.pop_back();
      NodeId n = graph_[w].producer;
      if (n < 0 || !joint_.varying[u(w)] || (kept_[u(w)] && w != leaving) || repeated_[u(n)] ||
          seen_[u(n)] == visit_)
        continue;
      if (!joint_.may_repeat[u(n)]) return false;
      seen_[u(n)] = visit_;
      chain.push_back(n);
      for (ValueId input : graph_.nodes[u(n)].inputs) open.push_back(input);
    }
    return true;
  }

  // The schedule with the present choice, and when each buffer lives.
  void measure() {
    const size_t values = graph_.values.size();
    first_.assign(2 * values, kNever);
    last_.assign(2 * values, -1);
    last_forward_.assign(values, -1);
    first_backward_.assign(values, kNever);
    std::vector<bool> made(graph_.nodes.size());
    int at = 0;
    auto run = [&](NodeId n, bool again, bool backward) {
      const Node& node = graph_.nodes[u(n)];
      for (ValueId v : node.inputs) {
        size_t b = backward ? buffer(v) : u(joint_.root[u(v)]);
        last_[b] = at;
        if (b < values) {
          if (backward)
            first_backward_[b] = std::min(first_backward_[b], at);
          else
            last_forward_[b] = at;
        }
      }
      for (ValueId v : node.outputs) {
        size_t b = u(joint_.root[u(v)]) + (again && !kept_[u(joint_.root[u(v)])] ? values : 0);
        if (again && b < values) continue;  // a second result of a repeated node, which is still kept
        first_[b] = std::min(first_[b], at);
        last_[b] = std::max(last_[b], at);
      }
      ++at;
    };
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (joint_.roles[n] == JointRole::other) continue;
      const bool backward = joint_.roles[n] == JointRole::backward;
      if (backward) {
        std::vector<NodeId> chain;
        for (ValueId v : graph_.nodes[n].inputs)
          if (buffer(v) >= values) collect(v, made, chain);
        std::sort(chain.begin(), chain.end());
        for (NodeId c : chain) run(c, true, true);
      }
      run(static_cast<NodeId>(n), false, backward);
    }
    std::vector<int64_t> change(static_cast<size_t>(at) + 1, 0);
    for (size_t b = 0; b < 2 * values; ++b) {
      int64_t bytes = joint_.bytes[b % values];
      if (!bytes || first_[b] == kNever) continue;
      change[u(first_[b])] += bytes;
      change[u(last_[b]) + 1] -= bytes;
    }
    int64_t now = 0;
    peak_ = -1;
    for (size_t i = 0; i < change.size(); ++i)
      if ((now += change[i]) > peak_) peak_ = now, peak_at_ = static_cast<int>(i);
  }

  void collect(ValueId v, std::vector<bool>& made, std::vector<NodeId>& chain) {
    std::vector<ValueId> open{v};
    while (!open.empty()) {
      ValueId w = open.back();
      open.pop_back();
      NodeId n = graph_[w].producer;
      if (n < 0 || !joint_.varying[u(w)] || kept_[u(w)] || made[u(n)]) continue;
      made[u(n)] = true;
      chain.push_back(n);
      for (ValueId input : graph_.nodes[u(n)].inputs) open.push_back(input);
    }
  }

  ValueId best() {
    ValueId chosen = kNoValue;
    double most = 0;
    for (ValueId v : joint_.saved) {
      if (!kept_[u(v)] || last_forward_[u(v)] >= peak_at_ || first_[u(v)] >= peak_at_ ||
          first_backward_[u(v)] <= peak_at_)
        continue;
      std::vector<NodeId> chain;
      if (!reach(v, v, chain)) continue;
      auto bytes = static_cast<double>(joint_.bytes[u(v)]);
      double cost = bytes;  // so that what is free is still compared
      for (NodeId n : chain) cost += joint_.cost[u(n)];
      if (bytes / cost > most) most = bytes / cost, chosen = v;
    }
    return chosen;
  }

  const Graph& graph_;
  Joint joint_;
  std::vector<bool> kept_;      // per value
  std::vector<bool> repeated_;  // per node
  std::vector<int> first_, last_, last_forward_, first_backward_;
  std::vector<int> seen_;
  int visit_ = 0;
  int64_t peak_ = 0;
  int peak_at_ = 0;
};
}  // namespace

RematChoices remat_choices(const Graph& graph) { return Chooser(graph).run(); }

}  // namespace lockstep
