// The static arena: assigns fixed offsets to lifetimes.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::compiler {

// A buffer that is written at call `first` and last read at call `last` (both inclusive).
struct Lifetime {
  int first = 0;
  int last = 0;
  int64_t bytes = 0;
};
int64_t aligned_bytes(int64_t bytes);  // bytes that a buffer occupies in an arena
struct ArenaPlan {
  std::vector<int64_t> offsets;  // per lifetime, 256-byte aligned
  int64_t bytes = 0;             // of the whole arena
  int64_t floor = 0;             // the largest sum of bytes alive at one call: a lower bound of every plan
};

// Greedy by size: the largest buffer first, each at the lowest offset that no simultaneously live buffer
// occupies.
ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes);

}  // namespace lockstep::compiler
