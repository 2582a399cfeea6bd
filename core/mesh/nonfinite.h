// Finds the first NaN or infinity in a state; the answer is the same on every rank and for every layout.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/mesh/array.h"

namespace lockstep {

// A NaN or infinity in a tensor.
struct NonFinite {
  std::string fqn;
  std::vector<int64_t> at;   // its coordinates in the whole tensor
  double value = 0;          // nan, inf or -inf
  int64_t values = 0;        // how many elements of all tensors are not finite, each counted once
  std::string text() const;  // "token.weight[3,7] is nan, and so are 41 more values of the state"
};

// The index of the first NaN or infinity of `count` elements in host memory; -1 if there is none, and for
// integers.
int64_t first_nonfinite(DType dtype, const void* data, int64_t count);
// The first such element over all ranks, in the order of the arrays. The search runs where the bytes are
// stored. Every rank passes its parts of the same arrays. Collective over mesh.world.
std::optional<NonFinite> find_nonfinite(const std::vector<const Array*>& arrays, const LiveMesh& mesh);

}  // namespace lockstep
