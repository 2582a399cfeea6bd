// Kernels for f32 products as six bf16 products on Hopper, for matrices and convolutions: they split operands
// into parts, multiply tiles, and add pieces of sums.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/codegen/cuda/source/module.h"

namespace lockstep::compiler::cuda {

inline constexpr int64_t kBf16x6Tile = 128;  // the most rows and columns of a tile
inline constexpr int64_t kBf16x6Step = 64;   // terms of a sum that tensor cores add
inline constexpr int kBf16x6Bytes = 221252;  // the most shared memory of a block

// `a_turned`, `b_turned`: the operand's rows run along the summed dim. `pixels`: which operand is the pixels
// that the windows of a convolution read. Rows and columns of a tile: 128 x 128, 128 x 64 or 64 x 128.
struct TileForm {
  enum class Pixels { none, a, b };
  bool a_turned = false, b_turned = false;
  Pixels pixels = Pixels::none;
  int rows = 128, columns = 128;
  // The form for products of m x n.
  TileForm of(int64_t m, int64_t n) const {
    TileForm out = *this;
    out.columns = n <= 64 ? 64 : 128, out.rows = m <= 64 && n > 64 ? 64 : 128;
    return out;
  }
  bool small() const { return rows + columns < 256; }
  int stages() const { return small() ? 3 : 2; }  // as many as fit into shared memory
  int shared_bytes() const { return stages() * (3 * 128 * (rows + columns) + 20) + 8; }
};

// The windows of a convolution as an implicit GEMM reads them; `Windows` of the source. Windows are numbered
// sample by sample, row by row.
struct WindowArgs {
  int samples, counts_h, counts_w;  // windows along a sample's height and width
  int stride_h, stride_w, lo_h, lo_w, dilation_h, dilation_w;
  int sizes_w, places;   // places in a row of a window, and in the whole window
  int blocks, channels;  // of a pixel: blocks of 64 channels, and channels
  int mirrored;          // whether the weight's places are read backwards
};

// `Args` of the source, member by member. If A is pixels, B is a weight, and dim 1 of its map is its places.
struct TileArgs {
  CUtensorMap a, b;
  float* d;
  const float* bias;
  int* ticket;
  int64_t ldd, stride_d, piece;  // piece: numbers between pieces of sums
  int m, n, steps, steps_of_piece, tiles_m, tiles_n, batch, pieces, a_batched, b_batched;
  WindowArgs windows;
};
// Bytes of the source's Args, whose alignment is 64.
inline constexpr size_t kTileArgsBytes = (offsetof(TileArgs, windows) + sizeof(WindowArgs) + 63) / 64 * 64;

// How a product runs: the number of pieces of its sums, and its estimated seconds on an H200, with the
// launch. n: columns of tiles; for a weight's gradient these are whole blocks of channels, more than d has.
struct TileRun {
  TileForm form;
  int64_t m, n, batch, steps, pieces = 1;
  double seconds = 0;
  int64_t tiles_m() const { return (m + form.rows - 1) / form.rows; }
  int64_t tiles_n() const { return (n + form.columns - 1) / form.columns; }
  int64_t tiles() const { return tiles_m() * tiles_n() * batch; }  // of one piece
  int64_t steps_of_piece() const { return (steps + pieces - 1) / pieces; }
  // Bytes of memory for the pieces, 0 for one piece. With whole blocks of channels this is an upper bound.
  int64_t piece_bytes() const { return pieces > 1 ? pieces * m * n * batch * 4 : 0; }
};
// `steps` counts steps of 64 terms of a sum.
TileRun run_of(const TileForm& form, int64_t m, int64_t n, int64_t steps, int64_t batch);

// A matrix of f32 as three of bf16: [batch, 3, rows, ld].
struct PartsShape {
  int64_t rows, columns, batch = 1;
  int64_t ld() const { return (columns + 7) / 8 * 8; }
  int64_t bytes() const { return batch * rows * ld() * 6; }
};
double split_seconds(const PartsShape& parts);  // on an H200, with the launch
// Boxes of 64 columns, three parts and that many rows: those of a tile, or of a step if the summed dim is the
// rows. `parts` is aligned to 16 bytes. InternalError if the driver refuses the map. Strides are in bytes, of
// dims 1 to 3.
CUtensorMap tiled_map(std::byte* parts, const int64_t (&dims)[4], const int64_t (&strides)[3],
                      const int64_t (&box)[4], const std::string& what);
CUtensorMap map_of(std::byte* parts, const PartsShape& shape, int64_t rows);
// Why the device cannot run these kernels; "" if it can.
std::string lacks_bf16x6(const Properties& device);

// The launches for one form of tiles.
class Bf16x6Kernels {
 public:
  Bf16x6Kernels(CudaDevice& device, const TileForm& form, const std::string& cache_dir);
  // Splits x [batch, rows, columns] into parts. `ld` is the step from row to row, `stride` from matrix to
  // matrix. Resets the tickets of tiles if `ticket` is not null. `to` is aligned to 16 bytes.
  void split(const float* x, int64_t ld, int64_t stride, const PartsShape& shape, std::byte* to, int* ticket,
             Stream& stream) const;
  // d [batch, m, columns] = the products and the bias. `args` has maps, windows, ticket, d, bias, ldd,
  // stride_d, n (columns of d) and whether operands have batches. `pieces` is memory of piece_bytes() bytes.
  void multiply(const TileRun& run, const TileArgs& args, float* pieces, const std::string& what,
                Stream& stream) const;
  // The two halves of multiply: the sums in pieces [pieces, batch, m, columns]; and the sum of `count`
  // pieces, in their order, into args.d. args.d may be the first piece.
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
