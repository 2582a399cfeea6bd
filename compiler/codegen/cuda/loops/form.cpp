// Distributes a planned body over lanes, teams and blocks, as a function of its rows and columns.
#include "compiler/codegen/cuda/loops/form.h"

#include <algorithm>

namespace lockstep::compiler::cuda {

namespace {
// Several blocks of this size fit on a multiprocessor, so that one computes while another loads.
constexpr int64_t kMostLanes = 512;
constexpr int64_t kManySteps = 64;      // for very long rows, which are few
constexpr int kColumnThreads = 256;     // per block of warp teams that keep column sums
constexpr int64_t kColumnBlocks = 528,  // of a kernel that keeps column sums, for all tiles
    kLeastColumnBlocks = 132;           // if several kernels run together
}  // namespace

Form form_of(int64_t rows, int64_t columns, int64_t together) {
  Form out;
  out.width = 8;
  while (columns % out.width != 0) out.width /= 2;
  out.chunks = columns / out.width;
  if (out.chunks <= 128) {
    while (out.lanes < 32 && out.lanes < out.chunks) out.lanes *= 2;
    out.steps = static_cast<int>(std::max<int64_t>(1, over(out.chunks, out.lanes)));
    out.teams = kColumnThreads / out.lanes;
  } else {
    int64_t steps = std::clamp<int64_t>(over(out.chunks, 256), 2, 4);
    if (over(out.chunks, steps) > kMostLanes) steps = over(out.chunks, kMostLanes);
    if (steps > kManySteps) steps = over(out.chunks, 2 * kMostLanes);
    out.lanes = static_cast<int>(over(over(out.chunks, steps), 32) * 32);
    out.steps = static_cast<int>(over(out.chunks, out.lanes));
  }
  const int64_t tiles = std::max<int64_t>(1, over(out.chunks, kColumnThreads));
  const int64_t most = std::max<int64_t>(1, over(rows, 4 * out.teams));
  const int64_t blocks = std::max(kColumnBlocks / together, kLeastColumnBlocks);
  out.row_blocks = std::clamp<int64_t>(blocks / tiles, 1, most);
  out.block_rows = std::max<int64_t>(1, over(over(rows, out.row_blocks), out.teams) * out.teams);
  out.row_blocks = std::max<int64_t>(1, over(rows, out.block_rows));
  while (out.segments < kMostSegments && out.segments * 2 <= out.row_blocks) out.segments *= 2;
  return out;
}

bool sums_both_ways(int64_t rows, int64_t columns) {
  constexpr int64_t kFewTiles = 4;  // of kColumnBlocks: at least 132 blocks, if there are enough rows
  constexpr int kMostSteps = 8;     // chunks of a lane whose sums stay in registers
  const Form form = form_of(rows, columns);
  return over(form.chunks, kColumnThreads) <= kFewTiles && form.steps <= kMostSteps;
}

}  // namespace lockstep::compiler::cuda
