// Content hashes (XXH3, 128 bits) as hex text: cache keys, certificates, fingerprints, checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

std::string hash_hex(const void* data, size_t bytes);  // 32 hex digits, XXH3-128
inline std::string hash_hex(std::string_view text) { return hash_hex(text.data(), text.size()); }
uint64_t hash64(const void* data, size_t bytes, uint64_t seed = 0);  // XXH3-64
inline uint64_t hash64(std::string_view text, uint64_t seed = 0) {
  return hash64(text.data(), text.size(), seed);
}

}  // namespace lockstep
