// The ways to run one op on shards: for one mesh dim, placements of its inputs and what its outputs then are.
#pragma once

#include <set>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

struct ShardWay {
  std::vector<Placement> in, out;
};

// All ways to run `node` (global shapes) on a mesh dim of `ranks` ranks, the first with everything whole.
// Shards are even: a dim that does not divide gives no way. `groups` are the group counts, beside 1, that its
// inputs may come in.
//   - by the letters of the op's placement rule: a sharded letter that vanishes leaves Partial;
//   - by hand: reshapes of the leading dim of a run, slices, pads and concats at the borders of groups,
//   attention with fewer key heads;
//   - Partial where the op is linear, and no rounding stands before the sum.
std::vector<ShardWay> shard_ways(const Graph& graph, const Node& node, int64_t ranks,
                                 const std::set<int>& groups);

// Whether dim `dim` of a tensor is cut evenly: ranks * groups divides its size.
bool divides(const Shape& shape, const Placement& shard, int64_t ranks);
// The shape of one rank's part; InternalError unless it divides.
Shape shard_shape(const Shape& shape, const Placement& placement, int64_t ranks);

}  // namespace lockstep::compiler
