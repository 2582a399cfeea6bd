// StateHash: 128 bits of order-free content hash, and how elements of a tensor are added to it.
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

// What stands for the tensor in the hash of each of its elements.
uint64_t hash_key(const std::string& fqn, DType dtype);
// Of `count` elements of so many bytes in host memory, of which the first has the row-major place `index` in
// the whole tensor. On the threads of the caller.
StateHash hash_run(size_t element, const std::byte* data, int64_t count, uint64_t index, uint64_t key);

// The ways of one thread to the same sum, by the instructions that it takes; hash_run takes the fastest that
// this machine has.
enum class HashWay { scalar, avx2, avx512 };
bool has(HashWay way);
StateHash hash_span(HashWay way, size_t element, const std::byte* data, int64_t count, uint64_t index,
                    uint64_t key);

}  // namespace lockstep
