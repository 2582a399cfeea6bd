// The joint graph as rematerialisation sees it: which nodes are forward, which are backward, and which values
// forward saves for backward.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

enum class JointRole {
  forward,   // needed for a sum over micro-batches, and reads none
  backward,  // needed for one, and reads the summed counts: computes gradients
  other,     // sums over micro-batches, and everything computed from them
};

struct Joint {
  PerNode<JointRole> roles;
  PerNode<bool> may_repeat;  // forward, and a pure function of values (no collective, no update)
  PerNode<double> cost;    // flops of contractions, and the bytes of every node counted as flops; 0 for views
  PerValue<bool> varying;  // differs between micro-batches. The others (weights, tables) always exist
  // The value itself, or the value of which it is a view (reshape, permute, broadcast, slices that cover
  // all).
  PerValue<ValueId> root;
  // For a piece of a forward product (cut_products): the value into which the pieces are put together.
  PerValue<ValueId> whole;
  PerValue<int64_t> bytes;     // of its buffer in the arena; 0 for views, inputs and values that do not vary
  std::vector<ValueId> saved;  // roots made by forward nodes and read by backward nodes, ascending
};

Joint joint_of(const Graph& graph);

}  // namespace lockstep::compiler
