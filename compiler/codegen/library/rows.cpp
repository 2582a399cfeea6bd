// index_add and embedding_grad: adds rows in the order of the indices, columns in fixed blocks. bf16 and f16
// are added in f32 and rounded once.
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "compiler/codegen/library/library.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
constexpr int64_t kColumns = 64;  // per task
// Below this a parallel region costs more than one thread's zeroing.
constexpr int64_t kParallelBytes = 1 << 18;

class RowSums : public HostCall {
 public:
  // args[ids], args[rows]: the positions of the arguments; out is [rows, width].
  RowSums(size_t ids, size_t updates, int64_t count, int64_t rows, int64_t width, DType dtype)
      : ids_(ids), updates_(updates), count_(count), rows_(rows), width_(width), dtype_(dtype) {}
  size_t workspace(int threads) const override {
    return is_half(dtype_) ? static_cast<size_t>(threads * rows_ * kColumns) * 4 : 0;
  }
  std::string algorithm() const override {
    return str(is_half(dtype_) ? str(name(dtype_), " ") : "", "row sums in order, ", count_, " into ", rows_,
               "x", width_);
  }
  double flops() const override { return static_cast<double>(count_ * width_); }
  void run(void* const* args, void* workspace, int threads) const override {
    const int32_t* ids = static_cast<const int32_t*>(args[ids_]);
    for (int64_t i = 0; i < count_; ++i)
      if (ids[i] < 0 || ids[i] >= rows_)
        throw UserError(
            str("index ", ids[i], " at position ", i, " is outside the table of ", rows_, " rows"));
    // Threads zero parts of the table, then add to cells of it: blocks of columns and, if there are fewer of
    // those than threads, of rows. All addends of a row are in one cell per column, in the order of the
    // indices.
    const int64_t tasks = (width_ + kColumns - 1) / kColumns;
    const int64_t parts = is_half(dtype_) || tasks >= threads ? 1 : threads;
    const int64_t bytes = rows_ * width_ * static_cast<int64_t>(size_of(dtype_));
#pragma omp parallel num_threads(threads) if (count_ * width_ > 32768 || bytes > kParallelBytes)
    {
      const int64_t self = omp_get_thread_num(), all = omp_get_num_threads();
      const int64_t begin = bytes * self / all, end = bytes * (self + 1) / all;
      std::memset(static_cast<std::byte*>(args[2]) + begin, 0, static_cast<size_t>(end - begin));
#pragma omp barrier
#pragma omp for schedule(static)
      for (int64_t cell = 0; cell < tasks * parts; ++cell) {
        const int64_t from = cell / parts * kColumns, to = std::min(width_, from + kColumns);
        const int64_t first = rows_ * (cell % parts) / parts, last = rows_ * (cell % parts + 1) / parts;
        if (is_half(dtype_))
          halves(args, from, to, static_cast<float*>(workspace) + self * rows_ * kColumns);
        else
          for (int64_t i = 0; i < count_; ++i)
            if (ids[i] >= first && ids[i] < last) add(args, i, ids[i], from, to);
      }
    }
  }

 private:
  // Columns [from, to) of update `i` to row `id`.
  void add(void* const* args, int64_t i, int64_t id, int64_t from, int64_t to) const {
    if (dtype_ == DType::f32) {
      float* out = static_cast<float*>(args[2]) + id * width_;
      const float* row = static_cast<const float*>(args[updates_]) + i * width_;
      for (int64_t c = from; c < to; ++c) out[c] += row[c];
      return;
    }
    for (int64_t c = from; c < to; ++c)
      set_double(
          dtype_, args[2], id * width_ + c,
          get_double(dtype_, args[2], id * width_ + c) + get_double(dtype_, args[updates_], i * width_ + c));
  }
  void halves(void* const* args, int64_t from, int64_t to, float* sums) const {
    const int32_t* ids = static_cast<const int32_t*>(args[ids_]);
    const uint16_t* rows = static_cast<const uint16_t*>(args[updates_]);
    uint16_t* out = static_cast<uint16_t*>(args[2]);
    std::memset(sums, 0, rows_ * kColumns * 4);
    float row[kColumns];
    for (int64_t i = 0; i < count_; ++i) {
      widen(dtype_, rows + i * width_ + from, row, to - from);
      for (int64_t c = 0; c < to - from; ++c) sums[ids[i] * kColumns + c] += row[c];
    }
    for (int64_t r = 0; r < rows_; ++r)
      narrow(dtype_, sums + r * kColumns, out + r * width_ + from, to - from);
  }

  size_t ids_, updates_;
  int64_t count_, rows_, width_;
  DType dtype_;
};
}  // namespace

std::unique_ptr<LibraryCall> make_row_sums(const Node& node, const std::vector<Operand>& in,
                                           const std::vector<Operand>& out) {
  for (const auto& operand : in) LS_CHECK(is_dense(operand), node.op, " reads dense operands");
  bool embedding = node.op == ops::embedding_grad;
  size_t ids = embedding ? 1 : 0, updates = embedding ? 0 : 1;
  int64_t rows = out[0].shape[0], count = numel(in[ids].shape);
  return std::make_unique<RowSums>(ids, updates, count, rows, rows ? numel(out[0].shape) / rows : 0,
                                   out[0].dtype);
}

}  // namespace lockstep::compiler
