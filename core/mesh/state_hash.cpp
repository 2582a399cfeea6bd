// The state hash of elements in host memory, eight at a time on machines with vector multiplication of 64-bit
// words.
#include "core/mesh/state_hash.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep {

void StateHash::add(const StateHash& other) {
  lo += other.lo;
  hi += other.hi + (lo < other.lo ? 1 : 0);
}
std::string StateHash::hex() const {
  char out[33];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(hi),
                static_cast<unsigned long long>(lo));
  return out;
}

uint64_t hash_key(const std::string& fqn, DType dtype) {
  return hash64(fqn, static_cast<uint64_t>(dtype) + 1);
}

namespace {
#define LS_INLINE inline __attribute__((always_inline))
constexpr uint64_t kPlace = 0x9E3779B97F4A7C15ull;

// The finaliser of splitmix64, for one word or a vector of words.
template <class Word>
LS_INLINE void mix(Word& x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  x ^= x >> 31;
}

template <class Bits>
LS_INLINE Bits bits_at(const std::byte* data, int64_t i) {
  Bits bits;
  std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof bits), sizeof bits);
  return bits;
}

template <class Bits>
LS_INLINE void add_scalar(const std::byte* data, int64_t from, int64_t to, uint64_t index, uint64_t key,
                          StateHash& sum) {
  for (int64_t i = from; i < to; ++i) {
    uint64_t low = (index + static_cast<uint64_t>(i)) * kPlace + key;
    mix(low);
    low ^= static_cast<uint64_t>(bits_at<Bits>(data, i));
    mix(low);
    uint64_t high = low + key;
    mix(high);
    sum.add({low, high});
  }
}

// Eight partial sums in vector lanes, each with its own carries; they are added at the end.
constexpr int kLanes = 8;
typedef uint64_t Lanes __attribute__((vector_size(kLanes * sizeof(uint64_t))));

template <class Bits>
LS_INLINE void add_lanes(const std::byte* data, int64_t count, uint64_t index, uint64_t key, StateHash& sum) {
  Lanes place, lo, hi, all_keys;
  for (int l = 0; l < kLanes; ++l)
    place[l] = (index + static_cast<uint64_t>(l)) * kPlace + key, lo[l] = 0, hi[l] = 0, all_keys[l] = key;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    typedef Bits Loaded __attribute__((vector_size(kLanes * sizeof(Bits))));
    Loaded loaded;
    std::memcpy(&loaded, data + i * static_cast<int64_t>(sizeof(Bits)), sizeof loaded);
    Lanes low = place;
    mix(low);
    low ^= __builtin_convertvector(loaded, Lanes);
    mix(low);
    Lanes high = low + all_keys;
    mix(high);
    lo += low;
    hi += high;
    // A lane whose lower half overflowed has all bits set, which is -1
    hi -= reinterpret_cast<Lanes>(lo < low);
    place += kLanes * kPlace;
  }
  for (int l = 0; l < kLanes; ++l) sum.add({lo[l], hi[l]});
  add_scalar<Bits>(data, i, count, index, key, sum);
}

struct Scalar {
  template <class Bits>
  static LS_INLINE void add(const std::byte* data, int64_t count, uint64_t index, uint64_t key,
                            StateHash& sum) {
    add_scalar<Bits>(data, 0, count, index, key, sum);
  }
};
struct Vector {
  template <class Bits>
  static LS_INLINE void add(const std::byte* data, int64_t count, uint64_t index, uint64_t key,
                            StateHash& sum) {
    add_lanes<Bits>(data, count, index, key, sum);
  }
};

template <class Way>
LS_INLINE void add_span(size_t element, const std::byte* data, int64_t count, uint64_t index, uint64_t key,
                        StateHash& sum) {
  switch (element) {
    case 1:
      return Way::template add<uint8_t>(data, count, index, key, sum);
    case 2:
      return Way::template add<uint16_t>(data, count, index, key, sum);
    case 4:
      return Way::template add<uint32_t>(data, count, index, key, sum);
    default:
      return Way::template add<uint64_t>(data, count, index, key, sum);
  }
}

using Span = void (*)(size_t element, const std::byte* data, int64_t count, uint64_t index, uint64_t key,
                      StateHash& sum);
void scalar_span(size_t element, const std::byte* data, int64_t count, uint64_t index, uint64_t key,
                 StateHash& sum) {
  add_span<Scalar>(element, data, count, index, key, sum);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) void avx2_span(size_t element, const std::byte* data, int64_t count,
                                               uint64_t index, uint64_t key, StateHash& sum) {
  add_span<Vector>(element, data, count, index, key, sum);
}
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) void avx512_span(size_t element,
                                                                               const std::byte* data,
                                                                               int64_t count, uint64_t index,
                                                                               uint64_t key, StateHash& sum) {
  add_span<Vector>(element, data, count, index, key, sum);
}
#endif

Span span_of([[maybe_unused]] HashWay way) {
#if defined(__x86_64__)
  if (way == HashWay::avx512) return avx512_span;
  if (way == HashWay::avx2) return avx2_span;
#endif
  return scalar_span;
}
}  // namespace

bool has(HashWay way) {
#if defined(__x86_64__)
  if (way == HashWay::avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  if (way == HashWay::avx2) return __builtin_cpu_supports("avx2");
#endif
  return way == HashWay::scalar;
}

StateHash hash_span(HashWay way, size_t element, const std::byte* data, int64_t count, uint64_t index,
                    uint64_t key) {
  LS_CHECK(has(way) && (element == 1 || element == 2 || element == 4 || element == 8), element);
  StateHash sum;
  span_of(way)(element, data, count, index, key, sum);
  return sum;
}

// The hash is a sum of 128-bit integers, of spans that threads share.
StateHash hash_run(size_t element, const std::byte* data, int64_t count, uint64_t index, uint64_t key) {
  static const HashWay way = has(HashWay::avx512) ? HashWay::avx512
                             : has(HashWay::avx2) ? HashWay::avx2
                                                  : HashWay::scalar;
  constexpr int64_t kSpan = 1 << 18;
  const int64_t spans = (count + kSpan - 1) / kSpan;
  const auto hashed = [&](int64_t span) {
    const int64_t from = span * kSpan;
    return hash_span(way, element, data + from * static_cast<int64_t>(element), std::min(count - from, kSpan),
                     index + static_cast<uint64_t>(from), key);
  };
  if (spans == 1) return hashed(0);
  std::vector<StateHash> parts(static_cast<size_t>(spans));
#pragma omp parallel for schedule(static)
  for (int64_t span = 0; span < spans; ++span) parts[static_cast<size_t>(span)] = hashed(span);
  StateHash sum;
  for (const StateHash& part : parts) sum.add(part);
  return sum;
}

}  // namespace lockstep
