// One product of f32 on Hopper's tensor cores: how it is cut, its memory, tensor maps and launches.
#include "compiler/codegen/cuda/gemm_bf16x6.h"

#include <algorithm>

#include "compiler/codegen/cuda/source_module.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr int64_t kTile = 128,
                  kStep = 64;         // rows and columns of a tile; terms of a sum that tensor cores add
constexpr int64_t kProcessors = 132;  // of an H200, whatever the device: the choice decides bits
constexpr int64_t kMostPieces = 32;
constexpr size_t kMostPieceBytes = size_t{512} << 20;
// Of an H200: of a step of a tile, around a tile, of a launch; bytes a second; operations of cuBLASLt's f32.
constexpr double kStepSeconds = 2.4e-6, kTileSeconds = 2e-6, kLaunchSeconds = 3e-6, kBytes = 3e12,
                 kPlain = 4.8e13;

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }
size_t aligned(int64_t bytes) { return static_cast<size_t>(over(bytes, 256) * 256); }

// An operand's stored rows, of which `kept` (m or n) of one piece lie by rows or by columns.
struct Stored {
  int64_t rows, columns, batch;
  int64_t ld() const { return over(columns, 8) * 8; }  // of its parts
  int64_t bytes() const { return batch * rows * ld() * 6; }
};
Stored stored(const GemmOptions& o, bool a, int64_t kept) {
  const bool turned = a ? o.ta : !o.tb;  // the rows are what is summed over
  const int64_t batch = (a ? o.stride_a : o.stride_b) == 0 ? 1 : o.batch;
  return turned ? Stored{o.k, kept, batch} : Stored{kept, o.k, batch};
}

// The larger operand is split into its parts piece by piece of m or of n, the other one as a whole.
struct Cut {
  bool of_a = true;
  int64_t kept = 0;  // of a piece
};
Cut cut_of(const GemmOptions& o, int64_t most = kBf16x6Parts) {
  const bool of_a = stored(o, true, o.m).bytes() >= stored(o, false, o.n).bytes();
  const int64_t all = of_a ? o.m : o.n, bytes = stored(o, of_a, all).bytes();
  if (bytes <= most) return {of_a, all};
  const int64_t even = over(over(all, over(bytes, most)), kTile) * kTile;  // pieces of about one size
  const int64_t fit = most / over(bytes, all) / kTile * kTile;
  return {of_a, std::max(kTile, std::min(even, fit))};
}

// How a piece runs: its sums in how many pieces, and about how long that takes.
struct Run {
  int64_t m, n, tiles, steps, pieces = 1;
  double seconds = 0;
  int64_t steps_of_piece() const { return over(steps, pieces); }
};
Run run_of(const GemmOptions& o, const Cut& cut, int64_t kept) {
  Run run{cut.of_a ? kept : o.m, cut.of_a ? o.n : kept, 0, over(o.k, kStep)};
  run.tiles = over(run.m, kTile) * over(run.n, kTile) * o.batch;
  const int64_t bytes = run.m * run.n * o.batch * 4;
  Run best = run;
  for (int64_t pieces = 1; pieces <= std::min(run.steps, kMostPieces); ++pieces) {
    if (pieces > 1 && static_cast<size_t>(pieces * bytes) > kMostPieceBytes) break;
    if (over(run.steps, over(run.steps, pieces)) != pieces) continue;  // some would be empty
    run.pieces = pieces;
    const double waves = static_cast<double>(over(run.tiles * pieces, kProcessors));
    run.seconds = waves * (static_cast<double>(run.steps_of_piece()) * kStepSeconds + kTileSeconds);
    if (pieces > 1) run.seconds += static_cast<double>((2 * pieces + 1) * bytes) / kBytes + kLaunchSeconds;
    if (pieces == 1 || run.seconds < best.seconds) best = run;
  }
  return best;
}

double seconds_of(const GemmOptions& o) {
  const Cut cut = cut_of(o);
  const int64_t all = cut.of_a ? o.m : o.n;
  double seconds =
      2 * kLaunchSeconds +
      static_cast<double>(stored(o, true, o.m).bytes() + stored(o, false, o.n).bytes()) / 6 * 10 / kBytes;
  for (int64_t at = 0; at < all; at += cut.kept)
    seconds += run_of(o, cut, std::min(cut.kept, all - at)).seconds + 2 * kLaunchSeconds;
  return seconds;
}

// What the tiles take; as Args of their source.
struct TileArgs {
  CUtensorMap a, b;
  float* d;
  const float* bias;
  int* ticket;
  int64_t ldd, stride_d, piece;
  int m, n, steps, steps_of_piece, tiles_m, tiles_n, batch, pieces, a_batched, b_batched;
};

// Boxes of 64 columns, three parts: of a tile's rows, or of a step's where rows are what is summed over.
CUtensorMap map_of(std::byte* parts, const Stored& s, bool turned) {
  CUtensorMap map;
  auto number = [](int64_t x) { return static_cast<cuuint64_t>(x); };
  const cuuint64_t dims[4] = {number(s.columns), number(s.rows), 3, number(s.batch)};
  const cuuint64_t strides[3] = {number(s.ld() * 2), number(s.ld() * s.rows * 2),
                                 number(s.ld() * s.rows * 6)};
  const cuuint32_t box[4] = {kStep, static_cast<cuuint32_t>(turned ? kStep : kTile), 3, 1},
                   ones[4] = {1, 1, 1, 1};
  check(driver().TensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, parts, dims, strides, box,
                                      ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        str("tensor map of ", s.rows, " x ", s.columns, " parts"));
  return map;
}

class Bf16x6 : public Gemm {
 public:
  Bf16x6(CudaDevice& device, const GemmOptions& options, const std::string& cache_dir, int64_t most)
      : options_(options),
        cut_(cut_of(options, most)),
        processors_(static_cast<unsigned>(device.properties().multiprocessors)) {
    const std::string split = bf16x6_split_source(), tiles = bf16x6_tiles_source(options.ta, !options.tb);
    device.enter();
    ends_ = source_module(device, split, cache_dir);
    tiles_ = source_module(device, tiles, cache_dir,
                           {device.target() + "a", {"--device-as-default-execution-space"}});
    split_ = ends_->function("split_bf16x3"), sum_ = ends_->function("sum_pieces");
    multiply_ = tiles_->function("bf16x6_tiles");
    check(driver().FuncSetAttribute(multiply_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kBf16x6Bytes),
          "shared memory of bf16x6_tiles");
    text_ = str("bf16x6 ", text(options), " pieces=", run_of(options, cut_, cut_.kept).pieces, " ",
                cut_.of_a ? "m" : "n", " by ", cut_.kept);
    if (const int64_t last = (cut_.of_a ? options.m : options.n) % cut_.kept)
      text_ += str(", then ", last, " pieces=", run_of(options, cut_, last).pieces);
    text_ += str(" ", hash_hex(split + tiles));
  }
  size_t workspace() const override { return places_.end; }
  const std::string& algorithm() const override { return text_; }
  double flops() const override {
    return 2.0 * static_cast<double>(options_.batch) * static_cast<double>(options_.m) *
           static_cast<double>(options_.n) * static_cast<double>(options_.k);
  }
  void enqueue(const GemmArgs& args, void* workspace, Stream& stream) const override {
    const GemmOptions& o = options_;
    const Places& at = places_;
    auto* memory = static_cast<std::byte*>(workspace);
    const int64_t all = cut_.of_a ? o.m : o.n;
    split(args, !cut_.of_a, 0, cut_.of_a ? o.n : o.m, memory + at.whole, nullptr, stream);
    for (int64_t first = 0; first < all; first += cut_.kept) {
      const int64_t kept = std::min(cut_.kept, all - first);
      split(args, cut_.of_a, first, kept, memory + at.cut, reinterpret_cast<int*>(memory + at.ticket),
            stream);
      multiply(args, first, kept, memory, stream);
    }
  }

 private:
  // Of the parts of the operand that is whole and of the one that is cut, of pieces of sums and the ticket.
  struct Places {
    size_t whole, cut, pieces, ticket, end;
  };
  Places places() const {
    const GemmOptions& o = options_;
    const size_t whole = aligned(stored(o, !cut_.of_a, cut_.of_a ? o.n : o.m).bytes()),
                 cut = aligned(stored(o, cut_.of_a, cut_.kept).bytes());
    size_t pieces = 0;
    const int64_t all = cut_.of_a ? o.m : o.n;
    for (const int64_t kept : {cut_.kept, all % cut_.kept}) {
      if (kept == 0) continue;
      const Run run = run_of(o, cut_, kept);
      if (run.pieces > 1) pieces = std::max(pieces, aligned(run.pieces * run.m * run.n * o.batch * 4));
    }
    const size_t ticket = whole + cut + pieces;
    return {0, whole, whole + cut, ticket, ticket + 256};
  }
  void split(const GemmArgs& args, bool a, int64_t first, int64_t kept, std::byte* to, int* ticket,
             Stream& stream) const {
    const GemmOptions& o = options_;
    const Stored s = stored(o, a, kept);
    const bool turned = a ? o.ta : !o.tb;
    long long ld = a ? o.lda : o.ldb, stride = a ? o.stride_a : o.stride_b, to_ld = s.ld();
    const float* x = static_cast<const float*>(a ? args.a : args.b) + first * (turned ? 1 : ld);
    int rows = static_cast<int>(s.rows), columns = static_cast<int>(s.columns),
        batch = static_cast<int>(s.batch);
    int wide = reinterpret_cast<uintptr_t>(x) % 16 == 0 && ld % 4 == 0 && stride % 4 == 0;
    void* params[] = {&x, &to, &rows, &columns, &ld, &stride, &to_ld, &batch, &wide, &ticket};
    launch(split_, blocks(s.batch * s.rows * (s.ld() / 8)), 1, 1, 256, 0, stream, params, "split_bf16x3");
  }
  void multiply(const GemmArgs& args, int64_t first, int64_t kept, std::byte* memory, Stream& stream) const {
    const GemmOptions& o = options_;
    const Places& at = places_;
    const Run run = run_of(o, cut_, kept);
    const Stored a = stored(o, true, run.m), b = stored(o, false, run.n);
    auto* d = static_cast<float*>(args.d) + first * (cut_.of_a ? o.ldd : 1);
    const auto* bias = static_cast<const float*>(args.bias);
    if (bias && !cut_.of_a) bias += first;
    auto* pieces = reinterpret_cast<float*>(memory + at.pieces);
    const bool direct = run.pieces == 1;
    TileArgs tiles{};
    tiles.a = map_of(memory + (cut_.of_a ? at.cut : at.whole), a, o.ta);
    tiles.b = map_of(memory + (cut_.of_a ? at.whole : at.cut), b, !o.tb);
    tiles.d = direct ? d : pieces, tiles.bias = direct ? bias : nullptr;
    tiles.ticket = reinterpret_cast<int*>(memory + at.ticket);
    tiles.ldd = direct ? o.ldd : run.n, tiles.stride_d = direct ? o.stride_d : run.m * run.n;
    tiles.piece = o.batch * run.m * run.n;
    tiles.m = static_cast<int>(run.m), tiles.n = static_cast<int>(run.n);
    tiles.steps = static_cast<int>(run.steps), tiles.steps_of_piece = static_cast<int>(run.steps_of_piece());
    tiles.tiles_m = static_cast<int>(over(run.m, kTile)),
    tiles.tiles_n = static_cast<int>(over(run.n, kTile));
    tiles.batch = static_cast<int>(o.batch), tiles.pieces = static_cast<int>(run.pieces);
    tiles.a_batched = a.batch > 1, tiles.b_batched = b.batch > 1;
    void* params[] = {&tiles};
    launch(multiply_, std::min(static_cast<unsigned>(run.tiles * run.pieces), processors_), 1, 1, 384,
           kBf16x6Bytes, stream, params, text_);
    if (direct) return;
    long long piece = tiles.piece, n = run.n, ldd = o.ldd, rows = run.m, stride_d = o.stride_d;
    int count = tiles.pieces;
    void* sum[] = {&pieces, &d, &bias, &piece, &count, &n, &ldd, &rows, &stride_d};
    launch(sum_, blocks(piece), 1, 1, 256, 0, stream, sum, "sum_pieces");
  }
  unsigned blocks(int64_t threads) const {
    return static_cast<unsigned>(std::min<int64_t>(over(threads, 256), int64_t{8} * processors_));
  }

  GemmOptions options_;
  Cut cut_;
  Places places_ = places();
  unsigned processors_;
  std::shared_ptr<const Module> ends_, tiles_;
  CUfunction split_, sum_, multiply_;
  std::string text_;
};
}  // namespace

std::string unfit_for_bf16x6(const GemmOptions& o, const Properties& device) {
  if (o.in != DType::f32 || o.out != DType::f32 || o.tf32) return "only products of f32 run so";
  if (o.epilogue != Epilogue::none && o.epilogue != Epilogue::bias)
    return str("it has no epilogue ", name(o.epilogue));
  const bool of_a = cut_of(o).of_a;
  if (stored(o, !of_a, of_a ? o.n : o.m).bytes() > 2 * kBf16x6Parts)
    return "the parts of its smaller operand take more than 2 GiB";
  if (stored(o, of_a, std::min(kTile, of_a ? o.m : o.n)).bytes() > kBf16x6Parts)
    return str("the parts of ", kTile, " rows of its larger operand take more than 1 GiB");
  const Run most = run_of(o, cut_of(o), cut_of(o).kept);
  if (most.tiles * most.pieces > INT32_MAX) return "it has too many tiles";
  if (device.major != 9 || device.minor != 0)
    return str("compute capability ", device.major, ".", device.minor, " is not Hopper's 9.0");
  if (device.shared_per_block < kBf16x6Bytes)
    return str("a block has ", device.shared_per_block, " bytes of shared memory, not ", kBf16x6Bytes);
  if (!driver().TensorMapEncodeTiled) return "the driver is older than 12.0";
  return "";
}

bool pays_bf16x6(const GemmOptions& o) {
  const double operations = 2.0 * static_cast<double>(o.batch) * static_cast<double>(o.m) *
                            static_cast<double>(o.n) * static_cast<double>(o.k);
  return seconds_of(o) < 0.85 * operations / kPlain;
}

std::unique_ptr<Gemm> make_bf16x6(CudaDevice& device, const GemmOptions& options,
                                  const std::string& cache_dir, int64_t most_parts) {
  return std::make_unique<Bf16x6>(device, options, cache_dir, most_parts);
}

std::unique_ptr<Gemm> make_product(CudaDevice& device, const GemmOptions& options,
                                   const std::string& cache_dir) {
  if (unfit_for_bf16x6(options, device.properties()).empty() && pays_bf16x6(options))
    return make_bf16x6(device, options, cache_dir);
  return make_gemm(device, options);
}

}  // namespace lockstep::compiler::cuda
