// The state hash of arrays: the sum over elements and ranks, independent of the layout.
#include "core/mesh/content.h"

namespace lockstep {

StateHash hash_box(const std::string& fqn, DType dtype, const Shape& shape, const Box& box,
                   const std::byte* data) {
  return content_of({{fqn, dtype, shape, box, box, data}}, {.hash = true}).hash;
}

StateHash hash_elements(const Array& array) { return content_of(holdings({&array}), {.hash = true}).hash; }

std::string state_hash(const std::vector<const Array*>& arrays, const LiveMesh& mesh) {
  std::vector<const Array*> counted;
  for (const Array* array : arrays)
    if (is_first_replica(*array, mesh.words, mesh.rank)) counted.push_back(array);
  return hash_of_ranks(content_of(holdings(counted), {.hash = true}).hash, *mesh.world);
}

std::string hash_of_ranks(const StateHash& sum, Group& world) {
  // The all-reduce adds four 32-bit limbs in 64-bit words, which cannot overflow; the carries are propagated
  // afterwards.
  uint64_t limbs[4] = {sum.lo & 0xffffffffu, sum.lo >> 32, sum.hi & 0xffffffffu, sum.hi >> 32};
  if (world.size() > 1) all_reduce(world, {limbs, limbs, 4, DType::i64, ReduceOp::sum}, "state_hash");
  StateHash out;
  for (int i = 0; i < 4; ++i) {
    StateHash part;
    if (i < 2)
      part.lo = limbs[i] << (32 * i), part.hi = i == 1 ? limbs[i] >> 32 : 0;
    else
      part.hi = limbs[i] << (32 * (i - 2));
    out.add(part);
  }
  return out.hex();
}

}  // namespace lockstep
