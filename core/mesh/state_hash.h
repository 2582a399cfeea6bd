// StateHash: a content hash of 128 bits that does not depend on the order in which elements are added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/types/dtype.h"

namespace lockstep {

// The sum over elements of mix(fqn, global index, bits), mod 2^128.
struct StateHash {
  uint64_t lo = 0, hi = 0;
  void add(const StateHash& other);
  std::string hex() const;  // 32 digits
  bool operator==(const StateHash&) const = default;
};

// The tensor's part in the hash of each of its elements.
uint64_t hash_key(const std::string& fqn, DType dtype);
// The hash of `count` elements of `element` bytes in host memory; the first has the row-major index `index`
// in the whole tensor. Runs on the threads of the caller.
StateHash hash_run(size_t element, const std::byte* data, int64_t count, uint64_t index, uint64_t key);

// Implementations of the same sum by instruction set; hash_run uses the fastest that this machine supports.
enum class HashWay { scalar, avx2, avx512 };
bool has(HashWay way);
StateHash hash_span(HashWay way, size_t element, const std::byte* data, int64_t count, uint64_t index,
                    uint64_t key);

}  // namespace lockstep
