// Philox4x32-10 (Salmon et al., SC 2011): counter-based random numbers, keyed by (seed, stream, step, global
// index).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/normal_pair.h"

namespace lockstep::philox {

using Block = std::array<uint32_t, 4>;

// Ten rounds over a 128-bit counter with a 64-bit key.
[[gnu::always_inline]] inline Block block(Block counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53u} * counter[0];
    uint64_t p1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(p0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The four words of elements 4 quad .. 4 quad + 3: key = (seed, stream) folded to 64 bits, counter = (quad,
// step). `stream` is a 64-bit hash of an FQN or a static op id. The result does not depend on layout, rank or
// order of evaluation.
[[gnu::always_inline]] inline Block words(uint64_t seed, uint64_t stream, uint64_t step, uint64_t quad) {
  uint64_t key = seed * 0x9E3779B97F4A7C15ull ^ stream;
  return block({static_cast<uint32_t>(quad), static_cast<uint32_t>(quad >> 32), static_cast<uint32_t>(step),
                static_cast<uint32_t>(step >> 32)},
               static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
}

// The 32 random bits of element `index`: word index % 4 of its quad.
inline uint32_t bits(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index) {
  return words(seed, stream, step, index >> 2)[index & 3];
}

// Uniform in [0, 1) with 24 bits.
inline float uniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Standard normal: element `index` uses the words of the pair it belongs to.
inline float normal(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index) {
  Block b = words(seed, stream, step, index >> 2);
  size_t pair = index & 2;
  const NormalPair made = normal_pair(b[pair], b[pair + 1]);
  return index & 1 ? made.second : made.first;
}

// The same for elements 4 quad .. 4 (quad + count) - 1, in vector registers.
void normals(uint64_t seed, uint64_t stream, uint64_t step, uint64_t quad, int64_t count, float* out);

}  // namespace lockstep::philox
