// How threads share the rows and columns of a space: a function of the two sizes, and of how many spaces may
// go together, so that every sum over them has one order.
#pragma once

#include <cstdint>

namespace lockstep::compiler::cuda {

inline int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }  // rounded up

// A team of `lanes` threads owns a row at a time. Lane l holds the chunks l, l + lanes, l + 2 lanes, ... of
// `width` neighbouring columns.
//
// The order of a row sum, in every kernel that holds it: element j of a lane's chunks is summed over the
// lane's chunks in order; the `width` sums meet in a tree (j with j + width/2, then width/4, ...); lanes of a
// warp meet in a tree (l with l ^ 16, l ^ 8, ... below min(lanes, 32)); warps meet in such a tree over the
// power of two that holds them, absent ones neutral. All of it is a function of the columns.
//
// The order of a column sum, in every kernel that holds it: block b owns rows [b * block_rows, (b + 1) *
// block_rows); of these team t sums the rows t, t + teams, t + 2 teams, ... in order; teams are added in
// order; then segment s of the combining kernel adds the blocks s, s + segments, ... in order, and the
// segments are added in order. All of it is a function of the rows and columns, and of
// `together`.
struct Form {
  int width = 1;           // columns of a chunk: 8, 4, 2 or 1, a divisor of the columns
  int64_t chunks = 0;      // of a row
  int lanes = 1;           // threads of a team: a power of two up to 32, or whole warps
  int steps = 1;           // chunks per lane: ceil(chunks / lanes)
  int teams = 1;           // per block, where column sums are kept
  int64_t block_rows = 1;  // per block, where column sums are kept
  int64_t row_blocks = 1;
  int segments = 1;  // of the combining kernel

  bool whole_warps() const { return lanes > 32; }  // the team is the block
  int warps() const { return (lanes + 31) / 32; }
};
// `together`: how many spaces may be summed at once; each takes its share of the blocks, but one for each
// multiprocessor of an H200.
Form form_of(int64_t rows, int64_t columns, int64_t together = 1);
// Whether a kernel that sums over rows and over columns keeps its column sums in registers and has a block
// for each multiprocessor: a block owns whole rows, so wide rows leave few of them.
bool sums_both_ways(int64_t rows, int64_t columns);

inline constexpr int kCombineColumns = 32;  // threads per segment of the combining kernel
inline constexpr int kMostSegments = 32;

}  // namespace lockstep::compiler::cuda
