// HeldRows: the part of a value that a rank stores (holds). Its layout splits rows of dim 0 over dp_shard,
// and each part over dp_replicate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

class HeldRows {
 public:
  // `mesh` is the graph's mesh. After the ranks' own dims it may have one of size 1 that the ranks do not
  // have. It must outlive this object.
  HeldRows(const Mesh& mesh, std::vector<int64_t> coordinate);

  struct Range {
    int64_t first = 0, count = 0;  // elements, in the whole value
  };
  Range of(const Value& value) const { return of(value, at_); }
  // For the rank at `coordinate` on mesh dim `dim`, and at this rank's coordinates on the others.
  Range of(const Value& value, int dim, int64_t coordinate) const;
  // Ranks along a mesh dim, or along all data dims (kDataDims).
  int64_t size(const std::string& mesh_dim) const;
  int dim(const std::string& mesh_dim) const { return mesh_.dim(mesh_dim); }

 private:
  Range of(const Value& value, const std::vector<int64_t>& at) const;
  const Mesh& mesh_;
  std::vector<int64_t> at_;
};

}  // namespace lockstep::compiler
