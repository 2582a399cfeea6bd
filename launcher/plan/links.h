// Links: the groups that collectives join, as nodes and links see them, and the seconds that bytes take
// there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/mesh/mesh.h"
#include "launcher/machine/roofline.h"

namespace lockstep::launcher {

// The ranks that a collective joins, as a link sees them: how many, and how many of them are on one node with
// the first of them.
struct GroupShape {
  int64_t ranks = 1, per_node = 1;
  bool operator==(const GroupShape&) const = default;
};
// The group of rank 0 along `dims` (indices) of a mesh whose ranks fill nodes of `ranks_per_node` in order.
GroupShape group_shape(const Mesh& mesh, const std::vector<int>& dims, int64_t ranks_per_node);
// Seconds of a collective in which a rank sends `bytes`, as many to each other rank of its group. What stays
// on the node and what leaves it travel side by side; a group of one rank sends nothing.
double travel_seconds(int64_t bytes, const GroupShape& group, const Roofline& roofline);

// The mesh dims of more than one rank that a collective goes along, as StartCollective says it; an exchange
// inside or across hosts goes along all data dims.
std::vector<int> dims_along(const std::string& along, const Mesh& mesh);
// Its group. `seats` as ProgramRank.
GroupShape link_shape(const std::string& along, const Mesh& mesh, int seats, int64_t ranks_per_node);
std::string dims_text(const Mesh& mesh,
                      const std::vector<int>& dims);  // "dp_replicate", "dp_replicate x dp_shard"

}  // namespace lockstep::launcher
