// Initial values, run by run of the boxes that this rank holds.
#include "core/nn/init.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/philox.h"

namespace lockstep {

namespace {
// Calls put(i, value) for elements [begin, end) of those from global index `first` on: four elements per
// Philox block.
template <class Put>
void each_normal(uint64_t seed, uint64_t stream, double std, int64_t first, int64_t begin, int64_t end,
                 const Put& put) {
  for (int64_t quad = (first + begin) >> 2; quad << 2 < first + end; ++quad) {
    auto words = philox::words(seed, stream, 0, static_cast<uint64_t>(quad));
    for (int64_t pair = 0; pair < 4; pair += 2) {
      int64_t at = 4 * quad + pair;
      if (at + 1 < first + begin || at >= first + end) continue;
      auto values = philox::normal_pair(words[pair], words[static_cast<size_t>(pair) + 1]);
      for (int64_t i = std::max(at, first + begin); i < std::min(at + 2, first + end); ++i)
        put(i - first, static_cast<float>(std * values[i - at]));
    }
  }
}

constexpr int64_t kChunk =
    1 << 16;  // elements that one thread makes at a time; a value depends on its index alone
}  // namespace

void fill(Array& array, const Init& init, uint64_t seed) {
  LS_CHECK(array.data || array.local_bytes() == 0, array.fqn, " is not allocated");
  array.host_wrote();
  uint64_t stream = hash64(array.fqn);
  Box all = whole(array.shape);
  for (const auto& piece : array.pieces)
    for_each_run(piece.global, all, piece.frame(array.local_shape),
                 [&](int64_t global, int64_t local, int64_t count) {
                   float* f32 = array.dtype == DType::f32 ? array.data.as<float>() + local : nullptr;
                   auto put = [&](int64_t i, float value) {
                     if (f32)
                       f32[i] = value;
                     else
                       set_double(array.dtype, array.data.data(), local + i, value);
                   };
                   const int64_t chunks = (count + kChunk - 1) / kChunk;
#pragma omp parallel for schedule(static) if (chunks > 1)
                   for (int64_t chunk = 0; chunk < chunks; ++chunk) {
                     const int64_t begin = chunk * kChunk, end = std::min(count, begin + kChunk);
                     if (init.kind == Init::Kind::normal)
                       each_normal(seed, stream, init.std, global, begin, end, put);
                     else
                       for (int64_t i = begin; i < end; ++i)
                         put(i, init.kind == Init::Kind::ones ? 1.0f : 0.0f);
                   }
                 });
}

}  // namespace lockstep
