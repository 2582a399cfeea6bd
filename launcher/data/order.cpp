// Computes the order of samples: a Feistel network with cycle walking, keyed by Philox.
#include "launcher/data/order.h"

#include <bit>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/philox.h"

namespace lockstep::launcher::data {

namespace {
// One pass of the network over 2 * half bits; a bijection for any round function.
uint64_t feistel(uint64_t value, int half, uint64_t seed, uint64_t stream, uint64_t epoch) {
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t left = value >> half, right = value & mask;
  for (uint64_t round = 0; round < 8; ++round) {
    uint64_t mixed = left ^ (philox::bits(seed, stream, epoch, round << 32 | right) & mask);
    left = right;
    right = mixed;
  }
  return left << half | right;
}
}  // namespace

int64_t permuted(int64_t index, int64_t count, uint64_t seed, int64_t epoch) {
  LS_CHECK(index >= 0 && index < count && epoch >= 0, "index ", index, ", count ", count, ", epoch ", epoch);
  static const uint64_t stream = hash64("data.order");
  const auto size = static_cast<uint64_t>(count);
  const int half = (std::bit_width(size - 1) + 1) / 2;  // 0 bits for one sample: the identity
  auto value = static_cast<uint64_t>(index);
  do value = feistel(value, half, seed, stream, static_cast<uint64_t>(epoch));
  while (value >= size);
  return static_cast<int64_t>(value);
}

int64_t sequence_of(int64_t g, int64_t count, bool shuffle, uint64_t seed) {
  LS_CHECK(g >= 0 && count > 0, "sample ", g, " of ", count);
  return shuffle ? permuted(g % count, count, seed, g / count) : g % count;
}

}  // namespace lockstep::launcher::data
