// Initial values, run by run of the boxes that this rank holds.
#include "core/nn/init.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/philox.h"

namespace lockstep {

namespace {
// Calls put(i, value) for the `count` elements from global index `first`: four elements per Philox block.
template <class Put>
void each_normal(uint64_t seed, uint64_t stream, double std, int64_t first, int64_t count, const Put& put) {
  for (int64_t quad = first >> 2; quad << 2 < first + count; ++quad) {
    auto words = philox::words(seed, stream, 0, static_cast<uint64_t>(quad));
    for (int64_t pair = 0; pair < 4; pair += 2) {
      int64_t at = 4 * quad + pair;
      if (at + 1 < first || at >= first + count) continue;
      auto values = philox::normal_pair(words[static_cast<size_t>(pair)], words[static_cast<size_t>(pair) + 1]);
      for (int64_t i = std::max(at, first); i < std::min(at + 2, first + count); ++i)
        put(i - first, static_cast<float>(std * values[static_cast<size_t>(i - at)]));
    }
  }
}
}  // namespace

void fill(Array& array, const Init& init, uint64_t seed) {
  LS_CHECK(array.data || array.local_bytes() == 0, array.fqn, " is not allocated");
  array.host_wrote();
  uint64_t stream = hash64(array.fqn);
  Box all = whole(array.shape);
  for (const auto& piece : array.pieces)
    for_each_run(piece.global, all, piece.frame(array.local_shape), [&](int64_t global, int64_t local, int64_t count) {
      float* f32 = array.dtype == DType::f32 ? array.data.as<float>() + local : nullptr;
      auto put = [&](int64_t i, float value) {
        if (f32)
          f32[i] = value;
        else
          set_double(array.dtype, array.data.data(), local + i, value);
      };
      if (init.kind == Init::Kind::normal) return each_normal(seed, stream, init.std, global, count, put);
      for (int64_t i = 0; i < count; ++i) put(i, init.kind == Init::Kind::ones ? 1.0f : 0.0f);
    });
}

}  // namespace lockstep
