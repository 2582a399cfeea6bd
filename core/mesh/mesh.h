// A mesh arranges ranks in named dims with sizes. Row-major, last dim fastest, like PyTorch's
// init_device_mesh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/types/shape.h"

namespace lockstep {

// Dim names with a meaning: the name selects the parallelism strategy.
inline constexpr std::string_view kMeshDims[] = {"pp", "dp_replicate", "dp_shard", "cp", "tp"};
// The name of both data dims together, for a collective over all data ranks of a mesh that has both.
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
  // The group of `rank` along a mesh dim, in order.
  std::vector<int64_t> ranks_along(int mesh_dim, int64_t rank) const;
  int64_t data_size() const;              // product of the data dims
  int64_t data_rank(int64_t rank) const;  // position among the data dims, row-major
  bool operator==(const Mesh&) const = default;
};

// The number of data ranks per host, for several hosts of `ranks_per_node` consecutive ranks each. It is
// defined if every host has the same number of ranks of each data group, and these are neighbours in
// data_rank order. Returns 0 otherwise, if all data ranks of a group are on one host, and if a host has only
// one of them.
int data_ranks_per_node(const Mesh& mesh, int64_t ranks_per_node);

// Two lists of world ranks of this rank's data group, in data_rank order, for hosts of `seats` data ranks:
// the ranks on this rank's host, and the ranks at its index on each host.
struct NodeRanks {
  std::vector<int64_t> inside, across;
};
NodeRanks node_ranks(const Mesh& mesh, int64_t rank, int seats);
// The mesh dim whose group of `rank` has these ranks; -1: none.
int dim_of(const Mesh& mesh, int64_t rank, const std::vector<int64_t>& ranks);

// Replaces at most one -1, checks names (known, unique, one per size) and that the product is the world size.
// Otherwise throws UserError with the product, the world size and the two nearest shapes that fit.
Mesh resolve_mesh(const Shape& shape, const std::vector<std::string>& dim_names, int64_t world_size);
std::string text(const Mesh& mesh);  // "[dp_replicate=2, tp=4]"

}  // namespace lockstep
