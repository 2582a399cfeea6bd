// A mesh is names and sizes: how ranks are arranged. Row-major, last dim fastest, as PyTorch's
// init_device_mesh lays them out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/types/shape.h"

namespace lockstep {

// Names that carry a meaning; the name says the strategy.
inline constexpr std::string_view kMeshDims[] = {"pp", "dp_replicate", "dp_shard", "cp", "tp"};
// Both data dims together, where a collective acts on all data ranks of a mesh that has both.
inline constexpr std::string_view kDataDims = "data";
bool is_data_dim(std::string_view mesh_dim);  // dp_replicate, dp_shard

struct Mesh {
  Shape shape{1};
  std::vector<std::string> dim_names{"dp_replicate"};

  int64_t size() const { return numel(shape); }
  int ndim() const { return static_cast<int>(shape.size()); }
  int find(std::string_view dim_name) const;            // index, or -1
  int dim(std::string_view dim_name) const;             // index; UserError listing the valid names
  int64_t size(std::string_view dim_name) const;        // 1 when the mesh has no such dim
  std::vector<int64_t> coordinate(int64_t rank) const;  // position of a rank in the mesh
  int64_t rank_of(const std::vector<int64_t>& coordinate) const;
  std::vector<int64_t> ranks_along(int mesh_dim,
                                   int64_t rank) const;  // the group of `rank` along a mesh dim, in order
  int64_t data_size() const;                             // product of the data dims
  int64_t data_rank(int64_t rank) const;                 // position among the data dims, row-major
  bool operator==(const Mesh&) const = default;
};

// Data ranks of a host, where a mesh lies on several hosts of `ranks_per_node` ranks in order, every host has
// as many data ranks of each group of them, and they are neighbours in data_rank order; 0: there is one host,
// or it is not so, or a host has one.
int data_ranks_per_node(const Mesh& mesh, int64_t ranks_per_node);

// The world ranks of this rank's host, and those at its place of each host, both of its data group and in
// data_rank order, for hosts of `seats` data ranks.
struct NodeRanks {
  std::vector<int64_t> inside, across;
};
NodeRanks node_ranks(const Mesh& mesh, int64_t rank, int seats);
int dim_of(const Mesh& mesh, int64_t rank,
           const std::vector<int64_t>& ranks);  // the dim whose group of `rank` they are; -1: none

// Fills at most one -1, checks names (known, unique, one per size) and that the product is the world size.
// UserError with the product, the world size and the two nearest shapes that fit.
Mesh resolve_mesh(const Shape& shape, const std::vector<std::string>& dim_names, int64_t world_size);
std::string text(const Mesh& mesh);  // "[dp_replicate=2, tp=4]"

}  // namespace lockstep
