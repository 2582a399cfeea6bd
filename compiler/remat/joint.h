// The joint graph as rematerialisation sees it: what is forward, what is backward, and what the one keeps for
// the other.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

enum class JointRole {
  forward,   // needed for a sum over micro-batches, reads none
  backward,  // needed for one, reads the summed counts: it makes gradients
  other,     // sums over micro-batches, and what is done with them
};

struct Joint {
  PerNode<JointRole> roles;
  PerNode<bool> may_repeat;  // forward, and a pure function of values (no collective, no update)
  PerNode<double> cost;    // flops of contractions, and the bytes of every node counted as flops; 0 for views
  PerValue<bool> varying;  // differs between micro-batches. The others (weights, tables) are always there
  PerValue<ValueId>
      root;  // itself, or what it is a view of (reshape, permute, broadcast, slices that cover all)
  PerValue<ValueId>
      whole;  // of a piece of a forward product (cut_products): what the pieces are put together to
  PerValue<int64_t> bytes;     // of its buffer in the arena; 0 for views, inputs and what does not vary
  std::vector<ValueId> saved;  // roots that are made by forward nodes and read by backward nodes, ascending
};

Joint joint_of(const Graph& graph);

}  // namespace lockstep::compiler
