// Compares two checkpoints: which tensors differ, where first, and by how much.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

struct TensorDifference {
  std::string fqn;
  DType dtype = DType::f32;
  Shape shape;
  int64_t differing = 0;        // elements
  std::vector<int64_t> first;   // index of the first of them
  std::string a, b;             // its values, as text that reads back
  double largest = 0;           // |a - b|, over all differing elements; infinite when one of them is NaN
  double largest_relative = 0;  // |a - b| / max(|a|, |b|)
};

// A tensor that only one of them has, or whose dtype or shape differs: as text, "" on the side without it.
struct TypeDifference {
  std::string fqn, a, b;
};

// Facts of the manifests other than tensors: "step", "mesh", "certificate", "producer", and keys of the
// config and the run's scalars as "config.optim.lr", "extra.X".
struct FactDifference {
  std::string name, a, b;
};

struct CheckpointDifference {
  std::vector<FactDifference> facts;
  std::vector<TypeDifference> types;
  std::vector<TensorDifference> tensors;  // those that differ, in the order of `a`
  int64_t compared = 0;                   // tensors that both have with the same type
  bool equal() const { return types.empty() && tensors.empty(); }
};

// Compares bits: 0 and -0 differ, equal bits of NaN do not. With a `tolerance` above 0, floats count as equal
// where |a - b| <= tolerance * max(1, |a|, |b|), and NaN equals NaN. Reads both once, through buffers of
// fixed size. DamagedError, worded as by verify_checkpoint, for the first damaged chunk.
CheckpointDifference compare_checkpoints(const std::string& a, const Manifest& of_a, Storage& storage_a,
                                         const std::string& b, const Manifest& of_b, Storage& storage_b,
                                         double tolerance = 0);

// Element i of a buffer as text that reads back.
std::string value_text(DType dtype, const std::byte* data, int64_t i);

}  // namespace lockstep::checkpoint
