// Content hashes, over xxHash.
#include "core/base/hash.h"

#include <xxhash.h>

#include <cstdio>

namespace lockstep {

std::string hash_hex(const void* data, size_t bytes) {
  XXH128_hash_t h = XXH3_128bits(data, bytes);
  char out[33];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(h.high64),
                static_cast<unsigned long long>(h.low64));
  return out;
}
uint64_t hash64(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

}  // namespace lockstep
