// Fills tables and launches kernels; as many entries as fit in a kernel's parameters share a launch.
#include "compiler/codegen/cuda/sums/reductions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "compiler/codegen/cuda/source/module.h"
#include "compiler/codegen/cuda/sums/reductions_source.h"
#include "compiler/codegen/cuda/sums/reductions_tables.h"
#include "compiler/codegen/cuda/sums/table_rows.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
bool aligned(const void* p, DType dtype = DType::f32) {
  return reinterpret_cast<uintptr_t>(p) % (4 * size_of(dtype)) == 0;
}  // to 4 elements
int64_t blocks_for(int64_t count, int64_t per_block) { return (count + per_block - 1) / per_block; }

// A table being filled; launched when it is full, and at the end.
template <class Table>
class Batch {
 public:
  Batch(CUfunction function, Stream& stream, const char* what, void* second = nullptr)
      : function_(function), stream_(stream), what_(what), second_(second) {}
  Table table{};

  template <class Entry>
  void add(Entry entry, int64_t blocks) {
    LS_CHECK(blocks > 0 && blocks < kMostBlocks, blocks, " blocks for one entry of ", what_);
    if (full() || blocks_ + blocks >= kMostBlocks) launch();
    entry.first = static_cast<unsigned>(blocks_);
    table.entry[table.entries++] = entry;
    blocks_ += blocks;
  }
  bool full() const { return table.entries == static_cast<long long>(std::size(table.entry)); }
  void launch() {
    if (table.entries == 0) return;
    void* args[] = {&table, &second_};
    cuda::launch(function_, static_cast<unsigned>(blocks_), 1, 1, kThreads, 0, stream_, args, what_);
    table.entries = 0;
    blocks_ = 0;
  }

 private:
  static constexpr int64_t kMostBlocks = int64_t{1} << 31;
  CUfunction function_;
  Stream& stream_;
  const char* what_;
  void* second_;  // the parameter after the table, if there is one
  int64_t blocks_ = 0;
};

class CudaReductions : public Reductions {
 public:
  CudaReductions(CudaDevice& device, const std::string& cache_dir) : device_(device), cache_dir_(cache_dir) {
    device_.enter();
    const auto module = source_module(device_, common_source(), cache_dir_);
    totals_ = {module, "row_totals"};
    limbs_ = {module, "limbs"}, limbs_finish_ = {module, "limbs_finish"}, norm_ = {module, "norm_of_limbs"};
    copy_ = {module, "copy"};
    add_ = {module, "add_int64"};
    checksums_ = {module, "checksums"};
  }

  void sum_rows(const Rows& rows, Stream& stream) override {
    if (!stray_) {
      stray_ = Buffer(sizeof(StrayId), device_.staging());
      *stray_.as<StrayId>() = {};
    }
    sum_table_rows(rows, scratch_for(static_cast<int64_t>(table_row_scratch(rows.count) / sizeof(double))),
                   stray_.as<StrayId>(), table_launch(stream));
  }
  void put_rows(const Placed& placed, Stream& stream) override {
    put_table_rows(placed, table_launch(stream));
  }
  void check() override {
    if (!stray_) return;
    const StrayId found = std::exchange(*stray_.as<StrayId>(), StrayId{});
    if (found.number)
      throw UserError(str("index ", found.id, " at position ", found.number - 1, " is outside the table of ",
                          found.rows, " rows"));
  }

  void accumulate(std::span<const Run> runs, std::span<const float* const> lefts, float* to,
                  Stream& stream) override {
    LS_CHECK(lefts.size() <= kMaxLefts, lefts.size(), " partials to the left of a gradient, at most ",
             int{kMaxLefts}, " fit a kernel");
    begin_accumulate(lefts.size());
    Batch<RunTable> batch(accumulate_[lefts.size()], stream, "accumulate");
    batch.table.to = to;
    std::copy(lefts.begin(), lefts.end(), batch.table.lefts);
    for (const Run& run : runs) {
      const bool half = is_bf16(run.dtype);
      auto from = [&](int64_t element) {
        return static_cast<const char*>(run.from) + element * static_cast<int64_t>(size_of(run.dtype));
      };
      auto all_aligned = [&](int64_t first) {
        const int64_t at = run.at + first;
        return aligned(to + at) && aligned(from(first), run.dtype) &&
               std::all_of(lefts.begin(), lefts.end(), [&](const float* l) { return aligned(l + at); });
      };
      auto add = [&](int64_t first, int64_t count, bool vector) {
        if (count > 0)
          batch.add(RunEntry{run.at + first, from(first), count, 0, vector, half},
                    blocks_for(count, kAccumulateElements));
      };
      // If everything is aligned a few elements later, those elements are processed first.
      int64_t head = 0;
      while (head < 4 && !all_aligned(head)) ++head;
      if (head == 4 || head >= run.count) {
        add(0, run.count, false);
        continue;
      }
      add(0, head, false);
      add(head, run.count - head, true);
    }
    batch.launch();
  }

  void sum(std::span<const Sum> sums, Stream& stream) override {
    int64_t scratch = 0;
    for (const Sum& sum : sums)
      if (sum.row_squares && sum.width > kPieceElements)
        scratch += sum.rows * blocks_for(sum.width, kPieceElements);
    double* pieces = scratch_for(scratch);
    Batch<TotalTable> totals(totals_, stream, "row_totals");
    std::vector<TotalEntry> long_rows;
    for (size_t i = 0; i < sums.size();) {
      const std::vector<int>& merges = sums[i].merges;
      const std::vector<bool> halves = halves_of(sums[i]);
      Batch<SumTable> batch(sum_kernel(merges, halves), stream, "sum");
      size_t deltas = 0;  // in the table
      for (; i < sums.size() && sums[i].merges == merges && halves_of(sums[i]) == halves; ++i) {
        const Sum& sum = sums[i];
        LS_CHECK(sum.sources.size() == merges.size(), sum.sources.size(), " sources, ", merges.size(),
                 " counts of merges");
        if (sum.rows == 0 || (!sum.out && !sum.row_squares)) continue;
        if (sum.width == 0) {
          if (sum.row_squares) device_.zero(sum.row_squares, sum.rows * sizeof(double), stream);
          continue;
        }
        SumEntry entry = entry_of(sum);
        int64_t blocks = blocks_of(entry);
        if (sum.row_squares && sum.width > kPieceElements) {
          const int64_t per_row = blocks_for(sum.width, kPieceElements);
          long_rows.push_back({pieces, sum.row_squares, sum.rows, per_row, 0});
          entry.squares = pieces;
          pieces += sum.rows * per_row;
        }
        place_deltas(sum, batch, deltas, entry);
        batch.add(entry, blocks);
      }
      batch.launch();
    }
    for (const TotalEntry& entry : long_rows) totals.add(entry, entry.rows);
    totals.launch();
  }

  void begin_accumulate(size_t lefts) override {
    if (lefts > kMaxLefts || begun_[lefts]) return;
    const auto module = source_module(device_, accumulate_source(static_cast<int>(lefts)), cache_dir_);
    accumulate_[lefts] = {module, str("accumulate_", lefts)}, begun_[lefts] = true;
  }
  void begin_sum(const std::vector<int>& merges, const std::vector<DType>& sources) override {
    std::vector<bool> halves;
    for (DType dtype : sources) halves.push_back(is_bf16(dtype));
    (void)sum_kernel(merges, halves);
  }

  size_t most_sources() const override { return kSumDeltas + 1; }
  size_t most_lefts() const override { return kMaxLefts; }

  void limbs(std::span<const Doubles> addends, int64_t* words, Stream& stream) override {
    device_.zero(words, 8 * sizeof(int64_t), stream);
    Batch<LimbsTable> batch(limbs_, stream, "limbs", words);
    for (const Doubles& d : addends)
      if (d.count > 0) batch.add(LimbsEntry{d.from, d.count, 0}, blocks_for(d.count, kLimbsDoubles));
    batch.launch();
    void* args[] = {&words};
    cuda::launch(limbs_finish_, 1, 1, 1, 1, 0, stream, args, "limbs_finish");
  }

  void norm_of_limbs(const int64_t* words, float* norm, Stream& stream) override {
    void* args[] = {&words, &norm};
    cuda::launch(norm_, 1, 1, 1, 1, 0, stream, args, "norm_of_limbs");
  }

  void copy(std::span<const Copy> copies, Stream& stream) override {
    Batch<CopyTable> batch(copy_, stream, "copy");
    for (const Copy& c : copies)
      if (c.bytes > 0 && c.to != c.from)
        batch.add(CopyEntry{static_cast<char*>(c.to), static_cast<const char*>(c.from),
                            static_cast<long long>(c.bytes), 0},
                  blocks_for(static_cast<int64_t>(c.bytes), kCopyBytes));
    batch.launch();
  }

  void checksums(std::span<const Bytes> parts, uint64_t* sums, const int64_t* wanted,
                 Stream& stream) override {
    if (parts.empty()) return;
    device_.zero(sums, parts.size() * sizeof(uint64_t), stream);
    Batch<ChecksumTable> batch(checksums_, stream, "checksums", const_cast<int64_t*>(wanted));
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].bytes == 0) continue;
      LS_CHECK(reinterpret_cast<uintptr_t>(parts[i].from) % 8 == 0, "bytes to check are at ", parts[i].from);
      batch.add(ChecksumEntry{static_cast<const unsigned long long*>(parts[i].from),
                              reinterpret_cast<unsigned long long*>(sums + i),
                              static_cast<long long>(parts[i].bytes), 0},
                std::max<int64_t>(1, blocks_for(static_cast<int64_t>(parts[i].bytes) / 8, kChecksumWords)));
    }
    batch.launch();
  }
  void add(int64_t* totals, const int64_t* addend, int64_t count, Stream& stream) override {
    if (count == 0) return;
    void* args[] = {&totals, &addend, &count};
    cuda::launch(add_, static_cast<unsigned>(blocks_for(count, kThreads)), 1, 1, kThreads, 0, stream, args,
                 "add_int64");
  }

 private:
  static bool is_bf16(DType dtype) {
    LS_CHECK(dtype == DType::f32 || dtype == DType::bf16, "addends of ", name(dtype));
    return dtype == DType::bf16;
  }
  static std::vector<bool> halves_of(const Sum& sum) {
    std::vector<bool> out;
    for (const Source& source : sum.sources) out.push_back(is_bf16(source.dtype));
    return out;
  }
  const SourceKernel& sum_kernel(const std::vector<int>& merges, const std::vector<bool>& halves) {
    LS_CHECK(merges.size() <= kSumDeltas + 1, "a sum over ", merges.size(), " sources, at most ",
             kSumDeltas + 1, " fit a kernel");
    auto at = sums_.find({merges, halves});
    if (at == sums_.end()) {
      const SourceKernel sum(source_module(device_, sum_source(merges, halves), cache_dir_), "sum");
      at = sums_.emplace(std::pair{merges, halves}, sum).first;
    }
    return at->second;
  }

  static SumEntry entry_of(const Sum& sum) {
    SumEntry entry{
        static_cast<const char*>(sum.sources[0].at), sum.out, sum.row_squares, sum.rows, sum.width, 0, 0, 0};
    int kind = sum.width == 1 ? kFlat : sum.width <= kShortWidth ? kShort : kPieces;
    // Without squares, the row structure is irrelevant: one flat row is fastest.
    if (!sum.row_squares) kind = kFlat, entry.rows = sum.rows * sum.width, entry.width = 1;
    bool vector = aligned(sum.out) && std::all_of(sum.sources.begin(), sum.sources.end(),
                                                  [](const Source& s) { return aligned(s.at, s.dtype); });
    vector = vector && (kind == kFlat ? entry.rows : entry.width) % 4 == 0;
    const bool stays = !sum.out || (sum.sources.size() == 1 && sum.sources[0].at == sum.out);
    entry.flags = static_cast<unsigned short>(kind | (vector ? kVector : 0) | (stays ? 0 : kStore));
    return entry;
  }
  static int64_t blocks_of(const SumEntry& entry) {
    switch (entry.flags & kKind) {
      case kFlat:
        return blocks_for(entry.rows, kFlatElements);
      case kShort: {
        int64_t lanes = 1;
        while (4 * lanes < entry.width) lanes *= 2;
        return blocks_for(entry.rows, kThreads / lanes * kShortPasses);
      }
      default:
        return blocks_for(entry.rows * blocks_for(entry.width, kPieceElements), kThreads / 32);
    }
  }

  // The entry's sources as distances from the first. Entries with equal distances share them, as tensors of
  // one bucket do. Launches the batch if there is no room left.
  static void place_deltas(const Sum& sum, Batch<SumTable>& batch, size_t& used, SumEntry& entry) {
    const size_t n = sum.sources.size() - 1;
    long long deltas[kSumDeltas];
    for (size_t s = 0; s < n; ++s)
      deltas[s] =
          reinterpret_cast<intptr_t>(sum.sources[s + 1].at) - reinterpret_cast<intptr_t>(sum.sources[0].at);
    if (batch.full()) batch.launch();
    if (batch.table.entries == 0) used = 0;
    long long* table = batch.table.deltas;
    for (size_t at = 0; n > 0 && at + n <= used; at += n)
      if (std::equal(deltas, deltas + n, table + at)) {
        entry.delta = static_cast<unsigned short>(at);
        return;
      }
    if (used + n > kSumDeltas) {
      batch.launch();
      used = 0;
    }
    std::copy(deltas, deltas + n, table + used);
    entry.delta = static_cast<unsigned short>(used);
    used += n;
  }

  RowLaunch table_launch(Stream& stream) {
    if (!table_rows_) table_rows_ = source_module(device_, table_rows_source(), cache_dir_);
    return [this, &stream](const char* kernel, unsigned blocks, unsigned threads, void** args) {
      cuda::launch(table_rows_->function(kernel), blocks, 1, 1, threads, 0, stream, args, kernel);
    };
  }

  // Captured graphs keep pointers into scratch, so a returned buffer stays allocated.
  double* scratch_for(int64_t doubles) {
    const size_t bytes = doubles * sizeof(double);
    if (doubles == 0) return nullptr;
    if (scratch_.empty() || scratch_.back().bytes() < bytes) scratch_.emplace_back(bytes, device_.memory());
    return scratch_.back().as<double>();
  }

  CudaDevice& device_;
  std::string cache_dir_;
  std::array<SourceKernel, kMaxLefts + 1> accumulate_;  // those that were begun
  std::array<bool, kMaxLefts + 1> begun_{};
  SourceKernel totals_, limbs_, limbs_finish_, norm_, copy_, add_, checksums_;
  std::map<std::pair<std::vector<int>, std::vector<bool>>, SourceKernel> sums_;
  std::vector<Buffer> scratch_;
  std::shared_ptr<const SourceModule> table_rows_;  // null until a step has sparse tables
  Buffer stray_;                                    // a StrayId, in host memory
};
}  // namespace

std::unique_ptr<Reductions> make_reductions(CudaDevice& device, const std::string& cache_dir) {
  return std::make_unique<CudaReductions>(device, cache_dir);
}

}  // namespace lockstep::compiler::cuda
