// What to recompute, ordered by value: bytes of the peak saved per repeated flop.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/remat/joint.h"

namespace lockstep::compiler {

// An order in which saved values are given up, that is, recomputed instead of kept. Level k gives up the
// first k. The backward pass then computes them again from the values that are still saved, right before it
// first reads them; each forward node runs again at most once. Costs never fall from level to level; peaks
// may rise.
struct RematChoices {
  std::vector<ValueId> order;
  // Per level, from 0 (nothing given up) to order.size():
  std::vector<int64_t> peak;    // estimated bytes alive at once: before fusion, and without workspaces
  std::vector<double> cost;     // of the repeated nodes, as in Joint
  std::vector<int64_t> values;  // number of recomputed values, without views
  double step_cost = 0;         // of forward and backward without repetition
  // Levels whose peak is below that of every earlier level, ascending; level 0 is always the first.
  std::vector<size_t> frontier;
};

// Greedy. It takes, from the saved values that merely wait during the peak, the one that saves the most bytes
// per flop. Then it repeats with the new peak, until no such value is left. A pure function of the joint
// graph after simplify, so that every rank makes the same choice. Without a backward pass there is only level
// 0.
RematChoices remat_choices(const Graph& graph);

}  // namespace lockstep::compiler
