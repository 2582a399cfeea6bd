// Links: the groups of collectives in terms of nodes and links, and the transfer time of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/mesh/mesh.h"
#include "launcher/machine/roofline.h"

namespace lockstep::launcher {

// The ranks of a collective: their number, and the number on the first one's node.
struct GroupShape {
  int64_t ranks = 1, per_node = 1;
  bool operator==(const GroupShape&) const = default;
};
// The group of rank 0 along `dims` (indices) of a mesh whose ranks fill nodes of `ranks_per_node` in order.
GroupShape group_shape(const Mesh& mesh, const std::vector<int>& dims, int64_t ranks_per_node);
// Seconds of a collective in which a rank sends `bytes`, split evenly over the other ranks of its group.
// Traffic within the node and off the node runs in parallel; a group of one rank sends nothing.
double travel_seconds(int64_t bytes, const GroupShape& group, const Roofline& roofline);

// The mesh dims with more than one rank of a collective, from StartCollective; an exchange within or across
// hosts uses all data dims.
std::vector<int> dims_along(const std::string& along, const Mesh& mesh);
// Its group. `seats` as ProgramRank.
GroupShape link_shape(const std::string& along, const Mesh& mesh, int seats, int64_t ranks_per_node);
std::string dims_text(const Mesh& mesh,
                      const std::vector<int>& dims);  // "dp_replicate", "dp_replicate x dp_shard"

}  // namespace lockstep::launcher
