// One f32 product on Hopper's tensor cores: its cut into pieces, memory and launches.
#include "compiler/codegen/cuda/matmul/gemm_bf16x6.h"

#include <algorithm>

#include "compiler/codegen/cuda/loops/form.h"
#include "compiler/codegen/cuda/matmul/bf16x6_tiles.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
// On an H200: operations per second of cuBLASLt's f32; seconds of overhead for all launches.
constexpr double kPlain = 4.8e13, kAroundSeconds = 3e-6;

size_t aligned(int64_t bytes) { return static_cast<size_t>(over(bytes, 256) * 256); }

// An operand's stored rows; `kept` (m or n) of a piece runs along rows or columns.
PartsShape stored(const GemmOptions& o, bool a, int64_t kept) {
  const bool turned = a ? o.ta : !o.tb;  // the rows run along the summed dim
  const int64_t batch = (a ? o.stride_a : o.stride_b) == 0 ? 1 : o.batch;
  return turned ? PartsShape{o.k, kept, batch} : PartsShape{kept, o.k, batch};
}

// The larger operand is split into its parts one piece of m or n at a time, the other one as a whole.
struct Cut {
  bool of_a = true;
  int64_t kept = 0;  // per piece
};
Cut cut_of(const GemmOptions& o, int64_t most = kBf16x6Parts) {
  const bool of_a = stored(o, true, o.m).bytes() >= stored(o, false, o.n).bytes();
  const int64_t all = of_a ? o.m : o.n, bytes = stored(o, of_a, all).bytes();
  if (bytes <= most) return {of_a, all};
  const int64_t even =
      over(over(all, over(bytes, most)), kBf16x6Tile) * kBf16x6Tile;  // pieces of about equal size
  const int64_t fit = most / over(bytes, all) / kBf16x6Tile * kBf16x6Tile;
  return {of_a, std::max(kBf16x6Tile, std::min(even, fit))};
}

TileForm form_of(const GemmOptions& o) { return TileForm{o.ta, !o.tb}.of(o.m, o.n); }
TileRun run_of_piece(const GemmOptions& o, const Cut& cut, int64_t kept) {
  return run_of(form_of(o), cut.of_a ? kept : o.m, cut.of_a ? o.n : kept, over(o.k, kBf16x6Step), o.batch);
}

double seconds_of(const GemmOptions& o) {
  const Cut cut = cut_of(o);
  const int64_t all = cut.of_a ? o.m : o.n;
  double seconds = kAroundSeconds + split_seconds(stored(o, !cut.of_a, cut.of_a ? o.n : o.m));
  for (int64_t at = 0; at < all; at += cut.kept) {
    const int64_t kept = std::min(cut.kept, all - at);
    seconds += split_seconds(stored(o, cut.of_a, kept)) + run_of_piece(o, cut, kept).seconds;
  }
  return seconds;
}

class Bf16x6 : public Gemm {
 public:
  Bf16x6(CudaDevice& device, const GemmOptions& options, const std::string& cache_dir, int64_t most)
      : options_(options), cut_(cut_of(options, most)), kernels_(device, form_of(options), cache_dir) {
    text_ = str("bf16x6 ", text(options), " pieces=", run_of_piece(options, cut_, cut_.kept).pieces, " ",
                cut_.of_a ? "m" : "n", " by ", cut_.kept);
    if (const int64_t last = (cut_.of_a ? options.m : options.n) % cut_.kept)
      text_ += str(", then ", last, " pieces=", run_of_piece(options, cut_, last).pieces);
    text_ += str(" ", kernels_.hash());
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
  // Places of the parts of the whole and of the cut operand, of pieces of sums, and of the ticket.
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
      pieces = std::max(pieces, aligned(run_of_piece(o, cut_, kept).piece_bytes()));
    }
    const size_t ticket = whole + cut + pieces;
    return {0, whole, whole + cut, ticket, ticket + 256};
  }
  void split(const GemmArgs& args, bool a, int64_t first, int64_t kept, std::byte* to, int* ticket,
             Stream& stream) const {
    const GemmOptions& o = options_;
    const bool turned = a ? o.ta : !o.tb;
    const int64_t ld = a ? o.lda : o.ldb;
    const float* x = static_cast<const float*>(a ? args.a : args.b) + first * (turned ? 1 : ld);
    kernels_.split(x, ld, a ? o.stride_a : o.stride_b, stored(o, a, kept), to, ticket, stream);
  }
  void multiply(const GemmArgs& args, int64_t first, int64_t kept, std::byte* memory, Stream& stream) const {
    const GemmOptions& o = options_;
    const Places& at = places_;
    const TileRun run = run_of_piece(o, cut_, kept);
    const PartsShape a = stored(o, true, run.m), b = stored(o, false, run.n);
    TileArgs tiles{};
    tiles.a = map_of(memory + (cut_.of_a ? at.cut : at.whole), a, o.ta ? kBf16x6Step : run.form.rows);
    tiles.b = map_of(memory + (cut_.of_a ? at.whole : at.cut), b, o.tb ? run.form.columns : kBf16x6Step);
    tiles.d = static_cast<float*>(args.d) + first * (cut_.of_a ? o.ldd : 1);
    tiles.bias = static_cast<const float*>(args.bias);
    if (tiles.bias && !cut_.of_a) tiles.bias += first;
    tiles.ticket = reinterpret_cast<int*>(memory + at.ticket);
    tiles.ldd = o.ldd, tiles.stride_d = o.stride_d, tiles.n = static_cast<int>(run.n);
    tiles.a_batched = a.batch > 1, tiles.b_batched = b.batch > 1;
    kernels_.multiply(run, tiles, reinterpret_cast<float*>(memory + at.pieces), text_, stream);
  }

  GemmOptions options_;
  Cut cut_;
  Places places_ = places();
  Bf16x6Kernels kernels_;
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
  if (stored(o, of_a, std::min(kBf16x6Tile, of_a ? o.m : o.n)).bytes() > kBf16x6Parts)
    return str("the parts of ", kBf16x6Tile, " rows of its larger operand take more than 1 GiB");
  const TileRun most = run_of_piece(o, cut_of(o), cut_of(o).kept);
  if (most.tiles() * most.pieces > INT32_MAX) return "it has too many tiles";
  return lacks_bf16x6(device);
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
