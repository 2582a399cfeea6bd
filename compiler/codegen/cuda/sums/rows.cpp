// index_add and embedding_grad: sorts indices stably by row, then sums each row in the order of its indices.
// No float atomics.
#include <algorithm>
#include <array>

#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr int64_t kSortChunk = 2048;  // indices per block of the sort, as in its source

class RowSums : public LibraryCall {
 public:
  RowSums(CudaDevice& device, size_t ids, size_t updates, int64_t count, int64_t rows, int64_t width,
          DType dtype, const std::string& cache_dir)
      : ids_(ids),
        updates_(updates),
        count_(count),
        rows_(rows),
        width_(width),
        size_(static_cast<int64_t>(size_of(dtype))),
        text_(str("row sums in order, ", count, " into ", rows, "x", width, " ", name(dtype), ", pieces of ",
                  kRowPiece, " ", hash_hex(row_sums_source(dtype)))) {
    LS_CHECK(count < INT32_MAX - kSortChunk && rows < INT32_MAX, text_);
    for (int64_t left = rows; left > 0; left >>= 8)
      ++passes_;  // `rows` itself is a key: that of ids outside the table
    blocks_ = (count + kSortChunk - 1) / kSortChunk;
    slots_ = 2 * ((count + kRowPiece - 1) / kRowPiece);
    int64_t sum_bytes = dtype == DType::f64 || (is_integer(dtype) && size_ == 8) ? 8 : 4;
    const std::array<int64_t, 7> bytes{count * 4,
                                       count * 4,
                                       count * 4,
                                       count * 4,
                                       256 * blocks_ * 4,
                                       2 * rows * 4,
                                       slots_ * width * sum_bytes};
    for (size_t i = 0; i < bytes.size(); ++i) at_[i + 1] = at_[i] + (bytes[i] + 255) / 256 * 256;
    const char* names[] = {"digits",     "scan",        "scatter",  "bounds",
                           "pieces_one", "pieces_wide", "rows_one", "rows_wide"};
    const auto module = source_module(device, row_sums_source(dtype), cache_dir);
    for (size_t i = 0; i < kernels_.size(); ++i) kernels_[i] = {module, names[i]};
  }

  size_t workspace(int) const override { return at_[7]; }
  bool runs_side_by_side() const override { return true; }
  double flops() const override { return static_cast<double>(count_ * width_); }
  std::string algorithm() const override { return text_; }

  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    if (rows_ * width_ == 0) return;
    const void* ids = args[ids_];
    const void* updates = args[updates_];
    void* out = args[2];
    if (count_ == 0) {
      check(driver().MemsetD8Async(reinterpret_cast<CUdeviceptr>(out), 0, rows_ * width_ * size_,
                                   stream_of(stream)),
            text_);
      return;
    }
    auto part = [&](size_t i) -> void* { return static_cast<char*>(workspace) + at_[i]; };
    int n = static_cast<int>(count_);
    auto rows = static_cast<unsigned>(rows_);
    auto blocks = static_cast<unsigned>(blocks_);
    void* totals = part(4);
    void* runs = part(5);
    void* partials = part(6);
    const void* keys = nullptr;
    const void* places = nullptr;
    for (int pass = 0; pass < passes_; ++pass) {
      int shift = 8 * pass;
      long long clear = pass ? 0 : 2 * rows_, entries = 256 * blocks_;
      void* keys_out = part(pass % 2);
      void* places_out = part(2 + pass % 2);
      void* count_args[] = {&ids, &keys, &n, &rows, &shift, &totals, &runs, &clear};
      launch(kernels_[0], blocks, 1, 1, 256, 0, stream, count_args, text_);
      void* scan_args[] = {&totals, &entries};
      launch(kernels_[1], 1, 1, 1, 1024, 0, stream, scan_args, text_);
      void* scatter_args[] = {&ids, &keys, &places, &n, &rows, &shift, &totals, &keys_out, &places_out};
      launch(kernels_[2], blocks, 1, 1, 256, 0, stream, scatter_args, text_);
      keys = keys_out, places = places_out;
    }
    void* bounds_args[] = {&keys, &n, &rows, &runs};
    launch(kernels_[3], static_cast<unsigned>((count_ + 255) / 256), 1, 1, 256, 0, stream, bounds_args,
           text_);

    // Wide accesses do not change bits, because columns are summed separately.
    int64_t lanes = 16 / size_;
    bool wide = width_ % lanes == 0 &&
                (reinterpret_cast<uintptr_t>(updates) | reinterpret_cast<uintptr_t>(out)) % 16 == 0;
    long long width = width_, slices = (width_ + 32 * (wide ? lanes : 1) - 1) / (32 * (wide ? lanes : 1));
    auto grid = [&](int64_t warps) { return static_cast<unsigned>((warps + 7) / 8); };
    LS_CHECK(std::max(slots_, rows_) * slices / 8 < INT32_MAX, text_);
    void* piece_args[] = {&updates, &keys, &places, &n, &rows, &runs, &width, &slices, &partials};
    if (count_ > kRowPiece)
      launch(kernels_[wide ? 5 : 4], grid(slots_ * slices), 1, 1, 256, 0, stream, piece_args, text_);
    void* row_args[] = {&updates, &places, &rows, &runs, &width, &slices, &partials, &out};
    launch(kernels_[wide ? 7 : 6], grid(rows_ * slices), 1, 1, 256, 0, stream, row_args, text_);
  }

 private:
  std::array<SourceKernel, 8> kernels_;
  size_t ids_, updates_;
  int64_t count_, rows_, width_, size_;
  int64_t blocks_ = 0, slots_ = 0;
  int passes_ = 0;
  std::array<int64_t, 8> at_{};  // keys, keys, places, places, totals, runs, partials, end
  std::string text_;
};
}  // namespace

std::unique_ptr<LibraryCall> make_row_sums(CudaDevice& device, const Node& node,
                                           const std::vector<Operand>& in, const std::vector<Operand>& out,
                                           const TargetOptions& options) {
  for (const auto& operand : in) LS_CHECK(is_dense(operand), node.op, " reads dense operands");
  bool embedding = node.op == ops::embedding_grad;
  LS_CHECK(embedding || node.op == ops::index_add, node.op);
  size_t ids = embedding ? 1 : 0, updates = embedding ? 0 : 1;
  int64_t rows = out[0].shape[0], count = numel(in[ids].shape);
  return std::make_unique<RowSums>(device, ids, updates, count, rows, rows ? numel(out[0].shape) / rows : 0,
                                   out[0].dtype, options.cache_dir);
}

}  // namespace lockstep::compiler::cuda
