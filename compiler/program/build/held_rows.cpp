// Computes a rank's rows from its coordinates.
#include "compiler/program/build/held_rows.h"

#include "compiler/pass/pass.h"
#include "core/mesh/layout.h"

namespace lockstep::compiler {

HeldRows::HeldRows(const Mesh& mesh, std::vector<int64_t> coordinate)
    : mesh_(mesh), at_(std::move(coordinate)) {
  at_.resize(mesh.shape.size(), 0);
}

HeldRows::Range HeldRows::of(const Value& value, int dim, int64_t coordinate) const {
  auto at = at_;
  at[dim] = coordinate;
  return of(value, at);
}

int64_t HeldRows::size(const std::string& mesh_dim) const {
  return mesh_dim == kDataDims ? mesh_.data_size() : mesh_.size(mesh_dim);
}

HeldRows::Range HeldRows::of(const Value& value, const std::vector<int64_t>& at) const {
  int64_t first = 0, rows = value.shape.empty() ? 1 : value.shape[0];
  const int64_t row = rows ? numel(value.shape) / rows : 0;
  for (const char* name : {"dp_shard", "dp_replicate"}) {
    const int dim = mesh_.find(name);
    if (dim < 0 || value.layout.on(dim).kind != Placement::Kind::shard || value.layout.on(dim) == OwnedRows())
      continue;
    auto [offset, count] = balanced(rows, mesh_.shape[dim], at[dim]);
    first += offset, rows = count;
  }
  return {first * row, rows * row};
}

}  // namespace lockstep::compiler
