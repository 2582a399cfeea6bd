// Generates many normals at a time: the rounds of 64 Philox blocks, then their pairs, with a clone of each
// loop per instruction set.
#include "core/base/philox.h"

#include <algorithm>

#include "core/base/clones.h"

namespace lockstep::philox {

namespace {
constexpr int kBlocks = 64;
struct Words {
  alignas(64) uint32_t of[4][kBlocks];
};
struct Normals {
  alignas(64) float of[4][kBlocks];
};

LS_CLONES void make_words(uint64_t seed, uint64_t stream, uint64_t step, uint64_t quad, Words& words) {
  for (int i = 0; i < kBlocks; ++i) {
    const Block made = philox::words(seed, stream, step, quad + static_cast<uint64_t>(i));
    words.of[0][i] = made[0], words.of[1][i] = made[1], words.of[2][i] = made[2], words.of[3][i] = made[3];
  }
}
LS_CLONES void make_pairs(const uint32_t* first, const uint32_t* second, float* to_first, float* to_second) {
  for (int i = 0; i < kBlocks; ++i) {
    const NormalPair made = normal_pair(first[i], second[i]);
    to_first[i] = made.first, to_second[i] = made.second;
  }
}
}  // namespace

void normals(uint64_t seed, uint64_t stream, uint64_t step, uint64_t quad, int64_t count, float* out) {
  Words words;
  Normals made;
  for (int64_t at = 0; at < count; at += kBlocks) {
    make_words(seed, stream, step, quad + static_cast<uint64_t>(at), words);
    make_pairs(words.of[0], words.of[1], made.of[0], made.of[1]);
    make_pairs(words.of[2], words.of[3], made.of[2], made.of[3]);
    const auto blocks = static_cast<int>(std::min<int64_t>(kBlocks, count - at));
    for (int i = 0; i < blocks; ++i)
      for (int word = 0; word < 4; ++word) out[4 * (at + i) + word] = made.of[word][i];
  }
}

}  // namespace lockstep::philox
