// Mesh: coordinates of ranks, and checks of a mesh from a config.
#include "core/mesh/mesh.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"

namespace lockstep {

bool is_data_dim(std::string_view mesh_dim) { return mesh_dim == "dp_replicate" || mesh_dim == "dp_shard"; }

int Mesh::find(std::string_view dim_name) const {
  for (size_t i = 0; i < dim_names.size(); ++i)
    if (dim_names[i] == dim_name) return static_cast<int>(i);
  return -1;
}
int Mesh::dim(std::string_view dim_name) const {
  int found = find(dim_name);
  if (found < 0)
    throw UserError(str("mesh has no dim \"", dim_name, "\"; its dims are ", join(dim_names, ", ")));
  return found;
}
int64_t Mesh::size(std::string_view dim_name) const {
  int found = find(dim_name);
  return found < 0 ? 1 : shape[found];
}
std::vector<int64_t> Mesh::coordinate(int64_t rank) const {
  std::vector<int64_t> out(shape.size());
  for (size_t i = shape.size(); i-- > 0;) out[i] = rank % shape[i], rank /= shape[i];
  return out;
}
int64_t Mesh::rank_of(const std::vector<int64_t>& coordinate) const {
  int64_t rank = 0;
  for (size_t i = 0; i < shape.size(); ++i) rank = rank * shape[i] + coordinate[i];
  return rank;
}
std::vector<int64_t> Mesh::ranks_along(int mesh_dim, int64_t rank) const {
  auto at = coordinate(rank);
  std::vector<int64_t> out;
  for (at[mesh_dim] = 0; at[mesh_dim] < shape[mesh_dim]; ++at[mesh_dim]) out.push_back(rank_of(at));
  return out;
}
int64_t Mesh::data_size() const {
  int64_t n = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    if (is_data_dim(dim_names[i])) n *= shape[i];
  return n;
}
// Counts the neighbours on the first host (`seats`), then checks that in every group the host changes exactly
// after each run of this many data ranks.
int data_ranks_per_node(const Mesh& mesh, int64_t ranks_per_node) {
  const int64_t all = mesh.size(), data = mesh.data_size();
  if (ranks_per_node < 1 || ranks_per_node >= all || all % ranks_per_node) return 0;
  // The world rank of each data rank, for each coordinate of the other dims.
  std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
  for (int64_t rank = 0; rank < all; ++rank) {
    auto at = mesh.coordinate(rank);
    for (size_t d = 0; d < at.size(); ++d)
      if (is_data_dim(mesh.dim_names[d])) at[d] = 0;
    auto& ranks = groups[at];
    ranks.resize(data);
    ranks[mesh.data_rank(rank)] = rank;
  }
  int64_t seats = 0;
  for (const auto& [at, ranks] : groups) {
    if (!seats)
      while (seats < data && ranks[seats] / ranks_per_node == ranks[0] / ranks_per_node) ++seats;
    if (data % seats) return 0;
    for (int64_t r = 0; r < data; ++r) {
      const auto node = [&](int64_t of) { return ranks[of] / ranks_per_node; };
      if (r % seats ? node(r) != node(r - 1) : r > 0 && node(r) == node(r - 1)) return 0;
    }
  }
  return seats > 1 && seats < data ? static_cast<int>(seats) : 0;
}

NodeRanks node_ranks(const Mesh& mesh, int64_t rank, int seats) {
  const auto at = mesh.coordinate(rank);
  const int64_t own = mesh.data_rank(rank);
  NodeRanks out;
  for (int64_t other = 0; other < mesh.size(); ++other) {
    const auto there = mesh.coordinate(other);
    bool together = true;  // equal coordinates in all but the data dims
    for (size_t d = 0; d < at.size(); ++d) together &= is_data_dim(mesh.dim_names[d]) || there[d] == at[d];
    if (!together) continue;
    const int64_t data_rank = mesh.data_rank(other);
    auto put = [&](std::vector<int64_t>& list, int64_t place) {
      list.resize(std::max(list.size(), static_cast<size_t>(place) + 1));
      list[place] = other;
    };
    if (data_rank / seats == own / seats) put(out.inside, data_rank % seats);
    if (data_rank % seats == own % seats) put(out.across, data_rank / seats);
  }
  return out;
}

int dim_of(const Mesh& mesh, int64_t rank, const std::vector<int64_t>& ranks) {
  for (int d = 0; d < mesh.ndim(); ++d)
    if (mesh.ranks_along(d, rank) == ranks) return d;
  return -1;
}

int64_t Mesh::data_rank(int64_t rank) const {
  auto at = coordinate(rank);
  int64_t out = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    if (is_data_dim(dim_names[i])) out = out * shape[i] + at[i];
  return out;
}

namespace {
// Pipeline and context parallelism are not implemented: dims of these names must have size 1.
bool is_unsplit(std::string_view name) { return name == "pp" || name == "cp"; }
// Other frameworks split this along a dim of this name; Lockstep does not.
std::string unsplit_thing(const std::string& name) {
  for (const char* word : {"pipeline", "pipe", "stage"})
    if (name == word) return "layers";
  for (const char* word : {"context", "seq", "sequence", "ring"})
    if (name == word) return "sequences";
  for (const char* word : {"ep", "expert", "experts"})
    if (name == word) return "experts";
  return "";
}
// Our name for another framework's name of a mesh dim, else the nearest known name.
std::string nearest_dim(const std::string& name, const std::vector<std::string>& known) {
  static const std::map<std::string, std::string> elsewhere = {{"ddp", "dp_replicate"},
                                                               {"dp", "dp_replicate"},
                                                               {"data", "dp_replicate"},
                                                               {"replicate", "dp_replicate"},
                                                               {"batch", "dp_replicate"},
                                                               {"fsdp", "dp_shard"},
                                                               {"zero", "dp_shard"},
                                                               {"shard", "dp_shard"},
                                                               {"zero3", "dp_shard"},
                                                               {"hsdp", "dp_replicate and dp_shard"},
                                                               {"tensor", "tp"},
                                                               {"model", "tp"},
                                                               {"mp", "tp"},
                                                               {"sp", "tp, which splits sequences too"}};
  if (auto found = elsewhere.find(name); found != elsewhere.end()) return found->second;
  return name.size() < 100 ? nearest(name, known) : "";
}
// Names are known dims, each once.
void check_dim_names(const std::vector<std::string>& dim_names) {
  std::vector<std::string> known;
  for (std::string_view dim : kMeshDims)
    if (!is_unsplit(dim)) known.emplace_back(dim);
  std::set<std::string> seen;
  for (const auto& name : dim_names) {
    if (std::find(known.begin(), known.end(), name) == known.end() && !is_unsplit(name)) {
      if (const std::string what = unsplit_thing(name); !what.empty())
        throw UserError(str("mesh.dim_names: \"", name, "\": this version splits no ", what,
                            " over ranks; known: ", join(known, ", ")));
      const std::string near = nearest_dim(name, known);
      throw UserError(str("mesh.dim_names: unknown dim \"", shortened(name, 60), "\"",
                          near.empty() ? "" : "; nearest: " + near, "; known: ", join(known, ", ")));
    }
    if (!seen.insert(name).second) throw UserError(str("mesh.dim_names: \"", name, "\" is named twice"));
  }
}
// The product of the given sizes, and the number of -1s.
struct Sizes {
  int64_t product = 1, free = 0;
};
Sizes sizes_of(const Shape& shape) {
  int64_t product = 1, free_dims = 0;
  for (int64_t size : shape) {
    if (size == -1)
      ++free_dims;
    else if (size < 1)
      throw UserError(str("mesh.shape ", str(shape), ": a size is ", size,
                          "; sizes are positive, or -1 for what is left"));
    else if (__builtin_mul_overflow(product, size, &product))
      throw UserError(str("mesh.shape ", str(shape), " multiplies out to more than 2^63 ranks"));
  }
  if (free_dims > 1)
    throw UserError(
        str("mesh.shape ", str(shape), " has ", free_dims, " sizes of -1; at most one may be left open"));
  return {product, free_dims};
}
// Similar shapes that fit the world: with another first dim, and with data ranks only.
std::string shapes_that_fit(const Shape& shape, int64_t world_size) {
  std::string advice;
  int64_t rest = 1;
  for (size_t i = 1; i < shape.size(); ++i) rest *= shape[i] == -1 ? 1 : shape[i];
  if (world_size % rest == 0 && world_size / rest >= 1) {
    Shape fit = shape;
    for (auto& size : fit)
      if (size == -1) size = 1;
    fit[0] = world_size / rest;
    advice += str("; ", str(fit), " fits ", world_size, " ranks");
  }
  Shape data(shape.size(), 1);
  data[0] = world_size;
  if (advice.find(str(data)) == std::string::npos)
    advice +=
        advice.empty() ? str("; ", str(data), " fits ", world_size, " ranks") : str("; so does ", str(data));
  return advice;
}
}  // namespace

Mesh resolve_mesh(const Shape& shape, const std::vector<std::string>& dim_names, int64_t world_size) {
  if (shape.empty()) throw UserError("mesh.shape is empty; [-1] uses every rank");
  if (shape.size() != dim_names.size())
    throw UserError(str("mesh.shape has ", shape.size(), " sizes and mesh.dim_names has ", dim_names.size(),
                        " names; give one size per name: -1 is what the others leave, as in [2,-1]"));
  check_dim_names(dim_names);
  const Sizes given = sizes_of(shape);
  const bool fits = given.free == 1 ? world_size % given.product == 0 : given.product == world_size;
  if (!fits)
    throw UserError(str("mesh.shape ", str(shape), " multiplies out to ", given.free ? "a multiple of " : "",
                        given.product, ", but there are ", world_size, " ranks",
                        shapes_that_fit(shape, world_size),
                        given.free ? "" : str("; or start with --nproc ", given.product)));
  Mesh mesh{shape, dim_names};
  for (auto& size : mesh.shape)
    if (size == -1) size = world_size / given.product;
  return mesh;
}

std::string text(const Mesh& mesh) {
  std::string out = "[";
  for (size_t i = 0; i < mesh.shape.size(); ++i)
    out += str(i ? ", " : "", mesh.dim_names[i], "=", mesh.shape[i]);
  return out + "]";
}

}  // namespace lockstep
