// What to recompute, in the order of worth: bytes of the peak saved per flop repeated.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/remat/joint.h"

namespace lockstep::compiler {

// An order in which saved values are given up. Level k gives up the first k; the backward pass then computes
// them again from what is still saved, right before it first reads them, each forward node at most once.
// Costs never fall from level to level; peaks may rise.
struct RematChoices {
  std::vector<ValueId> order;
  // Per level, 0 (nothing given up) to order.size():
  std::vector<int64_t> peak;     // estimated bytes alive at once: before fusion, and without workspaces
  std::vector<double> cost;      // of what is repeated, as in Joint
  std::vector<int64_t> values;   // that are recomputed, views not counted
  double step_cost = 0;          // of forward and backward without repeating
  std::vector<size_t> frontier;  // levels whose peak is below that of every level before them, ascending; 0
                                 // is always the first
};

// Greedy: of the saved values that only wait while the peak passes, the one that saves most bytes per flop;
// again with the new peak, until none waits there. A pure function of the graph (the joint graph after
// simplify): every rank chooses alike. Without a backward pass only level 0.
RematChoices remat_choices(const Graph& graph);

}  // namespace lockstep::compiler
