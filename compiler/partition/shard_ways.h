// Shard ways: for one op and one mesh dim, the placements that its inputs may have, and those of its outputs.
#pragma once

#include <set>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

struct ShardWay {
  std::vector<Placement> in, out;
};

// All ways to run `node` (global shapes) on a mesh dim of `ranks` ranks, the first with everything whole.
// Shards are even: a dim that does not divide gives no way. `groups` are the group counts, in addition to 1,
// that its inputs may have.
//   - by the letters of the op's placement rule: a sharded letter that vanishes leaves Partial;
//   - special cases: reshapes of the leading dim of a run, slices, pads and concats at the borders of groups,
//     attention with fewer key heads;
//   - Partial, if the op is linear and no rounding comes before the sum.
std::vector<ShardWay> shard_ways(const Graph& graph, const Node& node, int64_t ranks,
                                 const std::set<int>& groups);

// Whether dim `dim` of a tensor divides evenly: by ranks * groups.
bool divides(const Shape& shape, const Placement& shard, int64_t ranks);
// The shape of one rank's part; InternalError if it does not divide.
Shape shard_shape(const Shape& shape, const Placement& placement, int64_t ranks);

}  // namespace lockstep::compiler
