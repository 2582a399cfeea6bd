// What a rank holds of a value: rows of dim 0, split over dp_shard and what is there over dp_replicate, as
// the value's layout says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

class HeldRows {
 public:
  // `mesh` is the graph's: behind the ranks' own dims it may have one of size 1 that they lack. It outlives
  // this.
  HeldRows(const Mesh& mesh, std::vector<int64_t> coordinate);

  struct Range {
    int64_t first = 0, count = 0;  // elements, in the whole value
  };
  Range of(const Value& value) const { return of(value, at_); }
  // Of the rank that stands at `coordinate` on mesh dim `dim`, and where this one stands on the others.
  Range of(const Value& value, int dim, int64_t coordinate) const;
  int64_t size(
      const std::string& mesh_dim) const;  // ranks along a mesh dim, or along all data dims (kDataDims)
  int dim(const std::string& mesh_dim) const { return mesh_.dim(mesh_dim); }

 private:
  Range of(const Value& value, const std::vector<int64_t>& at) const;
  const Mesh& mesh_;
  std::vector<int64_t> at_;
};

}  // namespace lockstep::compiler
