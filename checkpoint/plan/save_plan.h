// SavePlan: which rank writes which box. A pure function of the layouts, so every rank computes the whole
// plan without communication.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/mesh/array.h"

namespace lockstep::checkpoint {

struct TensorSpec {
  std::string fqn;
  DType dtype = DType::f32;
  Shape shape;
  Layout layout;
  int64_t updates = -1;  // Array::updates; -1: unknown
};
std::vector<TensorSpec> specs_of(const std::vector<const Array*>& arrays);

struct PlannedChunk {
  size_t tensor = 0;  // index into the specs
  Box box;
};

struct SavePlan {
  std::vector<TensorSpec> tensors;
  // in file order: larger element sizes first, then tensors in order
  std::vector<std::vector<PlannedChunk>> by_rank;
  std::string fingerprint;  // equal on ranks that hold the same plan
  int64_t bytes_of(int64_t rank) const;
};

// Every distinct box of every tensor is written exactly once, by one of the ranks that hold it; boxes with
// several holders go, largest first, to the holder with the fewest bytes so far. A tensor without elements is
// one empty chunk, so that every reader sees it. InternalError for Partial and PerLane (not state) and for
// two tensors of one FQN.
SavePlan plan_save(const std::vector<TensorSpec>& tensors, const Mesh& mesh);

// Name of a chunk in its safetensors file: the FQN when the box is the whole tensor, else the FQN and the
// box, "w[0:4,8:16]".
std::string chunk_name(const std::string& fqn, const Shape& shape, const Box& box);
std::string shard_name(int64_t rank, const std::string& tag = "");  // "rank-3.safetensors"; with its tag

}  // namespace lockstep::checkpoint
