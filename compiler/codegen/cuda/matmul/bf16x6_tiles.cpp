// Launches of the bf16x6 kernels: parts, tiles and pieces of sums.
#include "compiler/codegen/cuda/matmul/bf16x6_tiles.h"

#include <algorithm>

#include "compiler/codegen/cuda/loops/form.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr int64_t kProcessors = 132;  // of an H200 on every device, because the choice decides bits
constexpr int64_t kMostPieces = 32;
constexpr int64_t kMostPieceBytes = int64_t{512} << 20;
// On an H200: seconds of a step of a tile, of a small one, overhead of a tile, of a launch; bytes per second.
constexpr double kStepSeconds = 2.4e-6, kSmallStepSeconds = 1.3e-6, kTileSeconds = 2e-6,
                 kLaunchSeconds = 3e-6, kBytes = 3e12;

}  // namespace

TileRun run_of(const TileForm& form, int64_t m, int64_t n, int64_t steps, int64_t batch) {
  TileRun run{form, m, n, batch, steps}, best = run;
  const double step = form.small() ? kSmallStepSeconds : kStepSeconds;
  for (int64_t pieces = 1; pieces <= std::min(steps, kMostPieces); ++pieces) {
    run.pieces = pieces;
    if (run.piece_bytes() > kMostPieceBytes) break;
    if (over(steps, run.steps_of_piece()) != pieces) continue;  // some pieces would be empty
    const double waves = static_cast<double>(over(run.tiles() * pieces, kProcessors));
    run.seconds = waves * (static_cast<double>(run.steps_of_piece()) * step + kTileSeconds) + kLaunchSeconds;
    if (pieces > 1)
      run.seconds += static_cast<double>(2 * run.piece_bytes() + m * n * batch * 4) / kBytes + kLaunchSeconds;
    if (pieces == 1 || run.seconds < best.seconds) best = run;
  }
  return best;
}

double split_seconds(const PartsShape& parts) {
  return static_cast<double>(parts.bytes()) / 6 * 10 / kBytes + kLaunchSeconds;
}

CUtensorMap tiled_map(std::byte* parts, const int64_t (&dims)[4], const int64_t (&strides)[3],
                      const int64_t (&box)[4], const std::string& what) {
  cuuint64_t sizes[4], bytes[3];
  cuuint32_t boxes[4], ones[4] = {1, 1, 1, 1};
  std::copy_n(dims, 4, sizes), std::copy_n(strides, 3, bytes);
  std::transform(box, box + 4, boxes, [](int64_t x) { return static_cast<cuuint32_t>(x); });
  CUtensorMap map;
  check(driver().TensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, parts, sizes, bytes, boxes,
                                      ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "tensor map of " + what);
  return map;
}
CUtensorMap map_of(std::byte* parts, const PartsShape& s, int64_t rows) {
  const int64_t ld = s.ld() * 2;
  return tiled_map(parts, {s.columns, s.rows, 3, s.batch}, {ld, ld * s.rows, ld * s.rows * 3},
                   {kBf16x6Step, rows, 3, 1}, str(s.rows, " x ", s.columns, " parts"));
}

std::string lacks_bf16x6(const Properties& device) {
  if (device.major != 9 || device.minor != 0)
    return str("compute capability ", device.major, ".", device.minor, " is not Hopper's 9.0");
  if (device.shared_per_block < kBf16x6Bytes)
    return str("a block has ", device.shared_per_block, " bytes of shared memory, not ", kBf16x6Bytes);
  if (!driver().TensorMapEncodeTiled || !driver().TensorMapEncodeIm2col)
    return "the driver is older than 12.0";
  return "";
}

Bf16x6Kernels::Bf16x6Kernels(CudaDevice& device, const TileForm& form, const std::string& cache_dir)
    : processors_(static_cast<unsigned>(device.properties().multiprocessors)), form_(form) {
  const std::string split = bf16x6_split_source(), tiles = bf16x6_tiles_source(form);
  const auto ends = source_module(device, split, cache_dir);
  split_ = {ends, "split_bf16x3"}, sum_ = {ends, "sum_pieces"};
  multiply_ = {source_module(device, tiles, cache_dir,
                             {device.target() + "a", {"--device-as-default-execution-space"}}),
               "bf16x6_tiles", form.shared_bytes()};
  hash_ = hash_hex(split + tiles);
}

void Bf16x6Kernels::split(const float* x, int64_t ld, int64_t stride, const PartsShape& shape, std::byte* to,
                          int* ticket, Stream& stream) const {
  long long from_ld = ld, from_stride = stride, to_ld = shape.ld();
  int rows = static_cast<int>(shape.rows), columns = static_cast<int>(shape.columns),
      batch = static_cast<int>(shape.batch);
  int wide = reinterpret_cast<uintptr_t>(x) % 16 == 0 && ld % 4 == 0 && stride % 4 == 0;
  void* params[] = {&x, &to, &rows, &columns, &from_ld, &from_stride, &to_ld, &batch, &wide, &ticket};
  launch(split_, blocks(shape.batch * shape.rows * (shape.ld() / 8)), 1, 1, 256, 0, stream, params,
         "split_bf16x3");
}

void Bf16x6Kernels::multiply(const TileRun& run, const TileArgs& args, float* pieces, const std::string& what,
                             Stream& stream) const {
  if (run.pieces == 1) return launch_tiles(run, args, what, stream);
  multiply_pieces(run, args, pieces, what, stream);
  sum_pieces(run, run.pieces, args, pieces, stream);
}

void Bf16x6Kernels::multiply_pieces(const TileRun& run, const TileArgs& args, float* pieces,
                                    const std::string& what, Stream& stream) const {
  TileArgs all = args;
  all.d = pieces, all.bias = nullptr, all.ldd = args.n, all.stride_d = run.m * args.n;
  launch_tiles(run, all, what, stream);
}

void Bf16x6Kernels::launch_tiles(const TileRun& run, const TileArgs& given, const std::string& what,
                                 Stream& stream) const {
  TileArgs args = given;
  args.piece = run.batch * run.m * args.n;
  args.m = static_cast<int>(run.m);
  args.steps = static_cast<int>(run.steps), args.steps_of_piece = static_cast<int>(run.steps_of_piece());
  args.tiles_m = static_cast<int>(run.tiles_m()), args.tiles_n = static_cast<int>(run.tiles_n());
  args.batch = static_cast<int>(run.batch), args.pieces = static_cast<int>(run.pieces);
  void* params[] = {&args};
  launch(multiply_, std::min(static_cast<unsigned>(run.tiles() * run.pieces), processors_), 1, 1, 384,
         static_cast<unsigned>(form_.shared_bytes()), stream, params, what);
}

void Bf16x6Kernels::sum_pieces(const TileRun& run, int64_t count, const TileArgs& args, const float* pieces,
                               Stream& stream) const {
  float* d = args.d;
  const float* bias = args.bias;
  long long piece = run.batch * run.m * args.n, n = args.n, ldd = args.ldd, rows = run.m,
            stride_d = args.stride_d;
  int number = static_cast<int>(count);
  void* sum[] = {&pieces, &d, &bias, &piece, &number, &n, &ldd, &rows, &stride_d};
  launch(sum_, blocks(piece), 1, 1, 256, 0, stream, sum, "sum_pieces");
}

unsigned Bf16x6Kernels::blocks(int64_t threads) const {
  return static_cast<unsigned>(std::min<int64_t>(over(threads, 256), int64_t{8} * processors_));
}

}  // namespace lockstep::compiler::cuda
