// The first NaN or infinity of a state, the same answer on every rank and layout.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/mesh/array.h"

namespace lockstep {

// A value of a tensor that is no finite number.
struct NonFinite {
  std::string fqn;
  std::vector<int64_t> at;   // its place in the whole tensor
  double value = 0;          // nan, inf or -inf
  int64_t values = 0;        // how many elements of all tensors are not finite, each counted once
  std::string text() const;  // "token.weight[3,7] is nan, and so are 41 more values of the state"
};

// The first of `count` elements in host memory that is NaN or infinite; -1 where none is, and for integers.
int64_t first_nonfinite(DType dtype, const void* data, int64_t count);
// The first such element in the order of the arrays, over all ranks, found where the bytes lie. Every rank
// passes its parts of the same arrays. Collective over mesh.world.
std::optional<NonFinite> find_nonfinite(const std::vector<const Array*>& arrays, const LiveMesh& mesh);

}  // namespace lockstep
