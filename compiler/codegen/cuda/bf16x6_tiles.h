// The kernels of products of f32 as six of bf16 on Hopper: the parts of operands, tiles and pieces of sums,
// of matrices and of convolutions.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/codegen/cuda/source_module.h"

namespace lockstep::compiler::cuda {

inline constexpr int64_t kBf16x6Tile = 128;  // the most rows and columns of a tile
inline constexpr int64_t kBf16x6Step = 64;   // terms of a sum that tensor cores add
inline constexpr int kBf16x6Bytes = 221252;  // the most shared memory of a block

// Which operands lie by rows of what is summed over; which of them is the pixels that the windows of a
// convolution read; rows and columns of a tile, 128 x 128, 128 x 64 or 64 x 128.
struct TileForm {
  enum class Pixels { none, a, b };
  bool a_turned = false, b_turned = false;
  Pixels pixels = Pixels::none;
  int rows = 128, columns = 128;
  // For products of m x n.
  TileForm of(int64_t m, int64_t n) const {
    TileForm out = *this;
    out.columns = n <= 64 ? 64 : 128, out.rows = m <= 64 && n > 64 ? 64 : 128;
    return out;
  }
  bool small() const { return rows + columns < 256; }
  int stages() const { return small() ? 3 : 2; }  // that fit into shared memory
  int shared_bytes() const { return stages() * (3 * 128 * (rows + columns) + 20) + 8; }
};

// Of the windows of a convolution, as an implicit GEMM reads them; `Windows` of the source. Windows are
// numbered sample by sample, row by row.
struct WindowArgs {
  int samples, counts_h, counts_w;  // windows along a sample's height and width
  int stride_h, stride_w, lo_h, lo_w, dilation_h, dilation_w;
  int sizes_w, places;   // places in a row of a window, and in all of it
  int blocks, channels;  // of a pixel: blocks of 64 channels, and channels
  int mirrored;          // the weight's places are read backwards
};

// `Args` of the source, member by member. Where A is pixels, B is a weight, whose map has its places as
// dim 1.
struct TileArgs {
  CUtensorMap a, b;
  float* d;
  const float* bias;
  int* ticket;
  int64_t ldd, stride_d, piece;  // piece: numbers between pieces of sums
  int m, n, steps, steps_of_piece, tiles_m, tiles_n, batch, pieces, a_batched, b_batched;
  WindowArgs windows;
};
// What the source's Args take, whose alignment is 64.
inline constexpr size_t kTileArgsBytes = (offsetof(TileArgs, windows) + sizeof(WindowArgs) + 63) / 64 * 64;

// How a product runs: its sums in how many pieces, and about how many seconds that takes an H200, a launch
// with it. n: columns of tiles; of a weight's gradient whole blocks of channels, more than there are in d.
struct TileRun {
  TileForm form;
  int64_t m, n, batch, steps, pieces = 1;
  double seconds = 0;
  int64_t tiles_m() const { return (m + form.rows - 1) / form.rows; }
  int64_t tiles_n() const { return (n + form.columns - 1) / form.columns; }
  int64_t tiles() const { return tiles_m() * tiles_n() * batch; }  // of a piece
  int64_t steps_of_piece() const { return (steps + pieces - 1) / pieces; }
  // What pieces take in memory, 0 for one; of whole blocks of channels at most that.
  int64_t piece_bytes() const { return pieces > 1 ? pieces * m * n * batch * 4 : 0; }
};
// steps: of 64 terms of a sum.
TileRun run_of(const TileForm& form, int64_t m, int64_t n, int64_t steps, int64_t batch);

// A matrix of f32 as three of bf16: [batch, 3, rows, ld].
struct PartsShape {
  int64_t rows, columns, batch = 1;
  int64_t ld() const { return (columns + 7) / 8 * 8; }
  int64_t bytes() const { return batch * rows * ld() * 6; }
};
double split_seconds(const PartsShape& parts);  // of an H200, a launch with it
// Boxes of 64 columns, three parts, of so many rows: a tile's, or a step's where rows are what is summed
// over. `parts` lies at a multiple of 16 bytes. InternalError where the driver does not take it.
CUtensorMap tiled_map(std::byte* parts, const int64_t (&dims)[4], const int64_t (&strides)[3],
                      const int64_t (&box)[4], const std::string& what);  // strides in bytes, of dims 1 to 3
CUtensorMap map_of(std::byte* parts, const PartsShape& shape, int64_t rows);
// Why the device has no such kernels; "" where it has them.
std::string lacks_bf16x6(const Properties& device);

// The launches of one form of tiles.
class Bf16x6Kernels {
 public:
  Bf16x6Kernels(CudaDevice& device, const TileForm& form, const std::string& cache_dir);
  // x [batch, rows, columns], `ld` from row to row and `stride` from one matrix to the next, in parts; begins
  // the tickets of tiles where `ticket` is not null. `to` lies at a multiple of 16 bytes.
  void split(const float* x, int64_t ld, int64_t stride, const PartsShape& shape, std::byte* to, int* ticket,
             Stream& stream) const;
  // d [batch, m, columns] = the products and the bias: `args` has maps, windows, ticket, d, bias, ldd,
  // stride_d, n (columns of d) and whether operands have batches; `pieces` is memory for piece_bytes().
  void multiply(const TileRun& run, const TileArgs& args, float* pieces, const std::string& what,
                Stream& stream) const;
  // Its halves: the sums in pieces [pieces, batch, m, columns]; and the sum of `count` pieces, in their
  // order, into args.d, which may be the first of them.
  void multiply_pieces(const TileRun& run, const TileArgs& args, float* pieces, const std::string& what,
                       Stream& stream) const;
  void sum_pieces(const TileRun& run, int64_t count, const TileArgs& args, const float* pieces,
                  Stream& stream) const;
  const std::string& hash() const { return hash_; }

 private:
  void launch_tiles(const TileRun& run, const TileArgs& args, const std::string& what, Stream& stream) const;
  unsigned blocks(int64_t threads) const;
  unsigned processors_;
  TileForm form_;
  SourceKernel split_, sum_, multiply_;
  std::string hash_;
};

// CUDA C++ of the kernels `split_bf16x3` and `sum_pieces`; of `bf16x6_tiles`, compiled for sm_90a.
std::string bf16x6_split_source();
std::string bf16x6_tiles_source(const TileForm& form);

}  // namespace lockstep::compiler::cuda
