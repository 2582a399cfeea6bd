// States for checkpoint tests: arrays on any mesh whose bytes follow from (FQN, global index, salt), so that
// any layout can be checked exactly.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/mesh/array.h"

namespace lockstep {

struct StateSpec {
  std::string fqn;
  DType dtype;
  Shape shape;
};

// Shapes that break things: scalars, one element, odd sizes, no elements, more ranks than rows, sizes that
// groups divide.
inline std::vector<StateSpec> awkward_specs() {
  return {{"step_scale", DType::f64, {}},
          {"one", DType::f32, {1}},
          {"bias", DType::f32, {5}},
          {"empty.rows", DType::f32, {0, 4}},
          {"empty.cols", DType::bf16, {4, 0}},
          {"odd.weight", DType::f32, {7, 3}},
          {"blocks.0.attn.qkv.weight", DType::f32, {12, 5}},
          {"blocks.0.mlp.up.weight", DType::bf16, {8, 6}},
          {"deep", DType::f16, {3, 4, 5}},
          {"mask", DType::boolean, {9}},
          {"ids", DType::i64, {2, 9}},
          {"bytes", DType::u8, {31}}};
}

inline uint64_t element_bits(const std::string& fqn, int64_t index, uint64_t salt) {
  int64_t words[2] = {index, static_cast<int64_t>(salt)};
  return hash64(words, sizeof words, hash64(fqn));
}

// The bits that an array of this dtype has: finite floats, 0 or 1.
inline uint64_t element_bits(const Array& array, int64_t index, uint64_t salt) {
  uint64_t bits = element_bits(array.fqn, index, salt);
  if (array.dtype == DType::boolean) return bits & 1;
  const int exponent = array.dtype == DType::f32    ? 23
                       : array.dtype == DType::f64  ? 52
                       : array.dtype == DType::bf16 ? 7
                       : array.dtype == DType::f16  ? 10
                                                    : -1;
  return exponent < 0 ? bits : bits & ~(uint64_t{1} << exponent);
}

// Calls visit(local element, global element) for every element of the array's pieces.
template <class Visit>
void for_each_element(const Array& array, Visit visit) {
  for (const auto& piece : array.pieces)
    for_each_run(piece.global, whole(array.shape), piece.frame(array.local_shape),
                 [&](int64_t global, int64_t local, int64_t count) {
                   for (int64_t i = 0; i < count; ++i) visit(local + i, global + i);
                 });
}

inline void fill(Array& array, uint64_t salt) {
  size_t size = size_of(array.dtype);
  for_each_element(array, [&](int64_t local, int64_t global) {
    uint64_t bits = element_bits(array, global, salt);
    std::memcpy(array.data.data() + static_cast<size_t>(local) * size, &bits, size);
  });
}

// "" when every element is the one that fill() writes; else the first that differs.
inline std::string difference(const Array& array, uint64_t salt) {
  size_t size = size_of(array.dtype);
  std::string out;
  for_each_element(array, [&](int64_t local, int64_t global) {
    uint64_t want = element_bits(array, global, salt), have = 0;
    if (size < 8) want &= (uint64_t{1} << (8 * size)) - 1;
    std::memcpy(&have, array.data.data() + static_cast<size_t>(local) * size, size);
    if (have != want && out.empty()) out = str(array.fqn, "[", global, "] has bits ", have, ", not ", want);
  });
  return out;
}

// A random way to lay a tensor on a mesh, the same on all ranks for one seed: mesh dims in random order, some
// replicated, a group split where it divides.
inline Layout random_layout(const Shape& shape, const Mesh& mesh, std::mt19937& random) {
  Layout out;
  std::vector<int> dims;
  for (int d = 0; d < mesh.ndim(); ++d) dims.push_back(d);
  std::shuffle(dims.begin(), dims.end(), random);
  std::vector<bool> split(shape.size(), false);
  for (int mesh_dim : dims) {
    if (shape.empty() || random() % 3 == 0) continue;
    int dim = static_cast<int>(random() % shape.size());
    int groups = !split[dim] && shape[dim] > 0 && shape[dim] % 3 == 0 && random() % 2 ? 3 : 1;
    split[dim] = true;
    out.set(mesh_dim, Shard(dim, groups));
  }
  return out;
}

// This rank's part of a state. `layout_of(spec)` is called once per spec, in order.
template <class LayoutOf>
std::vector<Array> make_state(const std::vector<StateSpec>& specs, const Mesh& mesh, int64_t rank,
                              LayoutOf layout_of) {
  std::vector<Array> out;
  for (const auto& spec : specs)
    out.push_back(make_array(spec.fqn, spec.dtype, spec.shape, layout_of(spec), mesh, rank));
  return out;
}
inline std::vector<Array> solo_state(const std::vector<StateSpec>& specs, uint64_t salt) {
  auto out = make_state(specs, Mesh{}, 0, [](const StateSpec&) { return Layout{}; });
  for (auto& array : out) fill(array, salt);
  return out;
}

inline std::vector<const Array*> readable(const std::vector<Array>& arrays) {
  std::vector<const Array*> out;
  for (const auto& array : arrays) out.push_back(&array);
  return out;
}
inline std::vector<Array*> writable(std::vector<Array>& arrays) {
  std::vector<Array*> out;
  for (auto& array : arrays) out.push_back(&array);
  return out;
}
inline std::string difference(const std::vector<Array>& arrays, uint64_t salt) {
  for (const auto& array : arrays)
    if (auto text = difference(array, salt); !text.empty()) return text;
  return "";
}

}  // namespace lockstep
