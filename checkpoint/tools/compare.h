// Two checkpoints beside one another: which tensors differ, where first, and by how much.
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
  double largest = 0;           // |a - b|, of all elements that differ; infinite where one is no number
  double largest_relative = 0;  // |a - b| / max(|a|, |b|)
};

// A tensor that only one of them has, or that has another dtype or shape: as text, "" where there is none.
struct TypeDifference {
  std::string fqn, a, b;
};

// What the manifests say of something else than tensors: "step", "mesh", "certificate", "producer", and keys
// of the config and the run's scalars as "config.optim.lr", "extra.X".
struct FactDifference {
  std::string name, a, b;
};

struct CheckpointDifference {
  std::vector<FactDifference> facts;
  std::vector<TypeDifference> types;
  std::vector<TensorDifference> tensors;  // those that differ, in the order of `a`
  int64_t compared = 0;                   // tensors that both have alike
  bool equal() const { return types.empty() && tensors.empty(); }
};

// Compares bits: 0 and -0 differ, equal bits of NaN do not. With a `tolerance` above 0, floats count as equal
// where |a - b| <= tolerance * max(1, |a|, |b|), and NaN equals NaN. Reads both once, through buffers of
// fixed size. DamagedError as verify_checkpoint's words, for the first chunk whose bytes are not those that
// were written.
CheckpointDifference compare_checkpoints(const std::string& a, const Manifest& of_a, Storage& storage_a,
                                         const std::string& b, const Manifest& of_b, Storage& storage_b,
                                         double tolerance = 0);

// Element i of a buffer as text that reads back.
std::string value_text(DType dtype, const std::byte* data, int64_t i);

}  // namespace lockstep::checkpoint
