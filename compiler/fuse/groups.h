// Groups of primitives, and the search for groups to join.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/fuse/options.h"
#include "core/ir/graph.h"

namespace lockstep::compiler {

// The role of a node in fusion.
enum class FuseRole {
  member,  // belongs to one group: its value is computed once
  copied,  // a view, a creation or a cheap producer: computed inside every reader
  kept,    // not a primitive (or a reshape, which costs nothing): unchanged
};

struct FuseGroup {
  std::vector<NodeId> nodes;  // members, ascending
};

class FuseGroups {
 public:
  FuseGroups(const Graph& graph, const FuseOptions& options);

  FuseRole role(NodeId node) const { return roles_[node]; }
  bool needed(NodeId node) const { return needed_[node]; }
  // Greedy: joins the pair that saves the most bytes first, in rounds, until no pair can be joined.
  void join();
  // The final groups; each fits one kernel.
  std::vector<FuseGroup> groups() const;
  // The body of a group, and the values of the graph that are its inputs and outputs.
  struct Body {
    std::shared_ptr<Graph> graph;
    std::vector<ValueId> inputs, outputs;
  };
  Body body_of(const FuseGroup& group) const;
  // Values with a buffer from which `value` is computed: itself, unless its producer is copied into readers.
  const std::vector<ValueId>& sources(ValueId value) const { return sources_[value]; }

 private:
  struct Unit {  // a group, or one kept node
    std::vector<NodeId> nodes;
    bool group = false;
    std::set<ValueId> reads;  // values from outside that it reads
    int version = 0;
    double work = -1, dear = 0;  // of its kernel, when known
    int gathers = 0;
  };
  struct Pair {
    int a = 0, b = 0;
    double bytes = 0;  // that no longer move
  };
  void find_roles();
  bool give_roles();
  // Counts the items of an element. False if there were too many; one input then gets a buffer.
  bool count_items(NodeId node);
  bool cheap(const Node& node, ValueId value) const;
  void find_sources(NodeId node);
  void make_units();
  std::vector<Pair> candidates() const;
  double bytes_saved(const Unit& a, const Unit& b) const;
  double bytes_moved(const Unit& unit) const;
  // Whether it is read outside a and b.
  bool leaves(ValueId value, const Unit& a, const Unit* b = nullptr) const;
  // Why their joined kernel would be no better; "" if it is. `saved`: bytes that no longer move.
  std::string against(const Unit& a, const Unit& b, const Body& joined, const KernelCost& cost,
                      double saved) const;
  bool try_join(const Pair& pair);
  bool makes_cycle(int a, int b) const;
  void find_waits();
  bool waits_for_more(const Unit& early, const Unit& late) const;
  void order_units();
  void order_joined(int a, int b);
  double bytes(ValueId value) const;
  void measure(Unit& unit) const;
  const KernelCost& cost_of(const Graph& body) const;
  std::set<ValueId> reads_of(const std::vector<NodeId>& nodes) const;

  const Graph& graph_;
  FuseOptions options_;
  PerNode<FuseRole> roles_;
  PerNode<bool> needed_;
  PerValue<bool> buffered_;  // must have a buffer: an output, or read by a kept node
  PerValue<std::vector<ValueId>> sources_;
  PerValue<double> items_;  // loads and operations per element if its producer is copied
  PerValue<int> depth_;     // length of its chain of cheap producers
  std::vector<Unit> units_;
  PerNode<NodeId> behind_;                 // the last collective's wait that it depends on
  PerNode<int> unit_of_;                   // -1: copied
  PerValue<std::set<int>> readers_;        // units that read it as a source
  std::vector<int> position_;              // per unit: its place in a topological order
  std::vector<int> order_;                 // per place: the unit; -1: no longer used
  std::set<std::pair<int, int>> refused_;  // versions of pairs that do not fit
  int next_version_ = 0;
  mutable std::map<std::string, KernelCost> costs_;  // by body: similar layers have equal bodies
};

}  // namespace lockstep::compiler
