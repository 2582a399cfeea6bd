// Replicas: what several ranks hold whole and alike, as checksums that are compared: a bit that flipped in
// one rank's memory shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/schedule/phases.h"
#include "core/mesh/array.h"

namespace lockstep {

// A tensor, or this rank's part of one, of which other ranks hold the same bytes.
struct Replica {
  std::string name;  // "token.weight"; "token.weight (bf16)" of the copy that a step computes with
  std::string part;  // which part of the tensor: equal on the ranks that hold the same
  const void* at = nullptr;
  int64_t bytes = 0;
  int64_t index = 0, count = 1;  // which of how many
};

// The arrays that are replicated along a mesh dim of this mesh. `at` is left to the caller.
Replica replica_of(const Array& array, const Mesh& mesh, int64_t rank);

// One word per rank whose sum over all ranks, as wrapping integers, is 0 where all replicas have equal sums;
// else it is not, but for one chance in 2^64.
int64_t replica_word(const std::vector<Replica>& replicas, const std::vector<uint64_t>& sums);

// The sentence about replicas whose sums differ: the first tensor, and the rank (a majority decides where
// there are three or more). "" where all are equal. Collective over `world`.
std::string replica_difference(const std::vector<Replica>& replicas, const std::vector<uint64_t>& sums,
                               Group& world);

}  // namespace lockstep
