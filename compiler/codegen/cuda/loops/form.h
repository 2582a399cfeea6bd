// How threads share the rows and columns of a space. It is a function of the two sizes and of how many spaces
// may run together, so every sum over them has one order.
#pragma once

#include <cstdint>

namespace lockstep::compiler::cuda {

inline int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }  // rounded up

// A team of `lanes` threads owns a row at a time. Lane l holds the chunks l, l + lanes, l + 2 lanes, ... of
// `width` neighbouring columns.
//
// The order of a row sum, the same in every kernel:
//   1. element j of a lane's chunks is summed over the lane's chunks in order;
//   2. the `width` sums are added in a tree (j with j + width/2, then width/4, ...);
//   3. the lanes of a warp are added in a tree (l with l ^ 16, l ^ 8, ... below min(lanes, 32));
//   4. the warps are added in such a tree over the next power of two; absent warps are neutral.
// All of it is a function of the columns.
//
// The order of a column sum, the same in every kernel:
//   1. block b owns rows [b * block_rows, (b + 1) * block_rows);
//   2. in a block, team t sums rows t, t + teams, t + 2 teams, ... in order, and the teams are added in
//     order;
//   3. segment s of the combining kernel adds blocks s, s + segments, ... in order;
//   4. the segments are added in order.
// All of it is a function of the rows, the columns and `together`.
struct Form {
  int width = 1;           // columns of a chunk: 8, 4, 2 or 1, a divisor of the columns
  int64_t chunks = 0;      // of a row
  int lanes = 1;           // threads of a team: a power of two up to 32, or whole warps
  int steps = 1;           // chunks per lane: ceil(chunks / lanes)
  int teams = 1;           // per block, if column sums are kept
  int64_t block_rows = 1;  // per block, if column sums are kept
  int64_t row_blocks = 1;
  int segments = 1;  // of the combining kernel

  bool whole_warps() const { return lanes > 32; }  // the team is the block
  int warps() const { return (lanes + 31) / 32; }
};
// `together`: how many spaces may be summed at once. Each takes its share of the blocks of an H200, at least
// one block per multiprocessor.
Form form_of(int64_t rows, int64_t columns, int64_t together = 1);
// Whether a kernel that sums over rows and over columns keeps its column sums in registers and still has a
// block for each multiprocessor. A block owns whole rows, so wide rows leave few blocks.
bool sums_both_ways(int64_t rows, int64_t columns);

inline constexpr int kCombineColumns = 32;  // threads per segment of the combining kernel
inline constexpr int kMostSegments = 32;

}  // namespace lockstep::compiler::cuda
