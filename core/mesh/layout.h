// Layout: the placements of one value on a mesh, in the order in which the splits are applied (tp before
// dp_shard), and the boxes that follow.
#pragma once

#include <utility>
#include <vector>

#include "core/mesh/mesh.h"
#include "core/mesh/placement.h"
#include "core/types/box.h"

namespace lockstep {

// Mesh dims that are not named are Replicate.
struct Layout {
  std::vector<std::pair<int, Placement>> splits;  // (mesh dim index, placement)
  Placement on(int mesh_dim) const;
  void set(int mesh_dim, Placement placement);  // replaces in place, else appends; Replicate removes
  bool operator==(const Layout&) const = default;
};
// "{tp: Shard(0), dp_shard: Shard(0)}"; "{}" if replicated
std::string text(const Layout& layout, const Mesh& mesh);

// Balanced split: part `index` of `parts` of `size`; sizes differ by at most 1, the larger ones first.
std::pair<int64_t, int64_t> balanced(int64_t size, int64_t parts, int64_t index);  // {offset, size}

// One contiguous box that a rank holds, and its position in the rank's dense local tensor.
struct Piece {
  Box global;
  Box local;
  // The rank's whole local tensor as a box in the global frame of this piece: use it with for_each_run.
  Box frame(const Shape& local_shape) const;
};

// The pieces of `shape` that the rank at `coordinate` holds: one, or several for a grouped split; none for an
// empty shard. Throws UserError if a grouped split does not divide the dim.
std::vector<Piece> local_pieces(const Layout& layout, const Mesh& mesh, const Shape& shape,
                                const std::vector<int64_t>& coordinate);
Shape local_shape(const Layout& layout, const Mesh& mesh, const Shape& shape,
                  const std::vector<int64_t>& coordinate);
// The largest local size over all ranks, per dim.
Shape padded_local_shape(const Layout& layout, const Mesh& mesh, const Shape& shape);

}  // namespace lockstep
