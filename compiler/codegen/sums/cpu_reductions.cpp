// Sums over lanes, squares of rows, exact totals and copies; each thread gets parts of about equal size.
#include "compiler/codegen/sums/cpu_reductions.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "compiler/codegen/sums/exact_norm.h"
#include "compiler/codegen/sums/halves.h"
#include "compiler/codegen/sums/lane_kernels.h"
#include "compiler/codegen/sums/row_sums.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
// From this size on, a copy leaves the caches before it is read again.
constexpr int64_t kPast = int64_t{1} << 22;

void copy_plain(float* to, const float* from, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

// Calls fn(part, first, end) for contiguous parts of [0, count), one per thread. If parts throw, the
// exception of the lowest one is rethrown.
template <class Fn>
void in_parts(int64_t count, int threads, Fn fn) {
  if (threads <= 1) return fn(0, int64_t{0}, count);
  std::vector<std::exception_ptr> failed(threads);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int part = 0; part < threads; ++part) {
    try {
      fn(part, count * part / threads, count * (part + 1) / threads);
    } catch (...) { failed[part] = std::current_exception(); }
  }
  for (const auto& error : failed)
    if (error) std::rethrow_exception(error);
}

// The division of a tensor's rows into pieces: several short rows, or a part of a long one.
struct Cut {
  explicit Cut(int64_t width)
      : rows_per_piece(width <= kBlock ? kBlock / std::max<int64_t>(width, 1) : 1),
        pieces_per_row(width <= kBlock ? 1 : (width + kBlock - 1) / kBlock) {}
  int64_t pieces(int64_t rows) const {
    return pieces_per_row > 1 ? rows * pieces_per_row : (rows + rows_per_piece - 1) / rows_per_piece;
  }
  int64_t rows_per_piece, pieces_per_row;
};

// The largest stack of partials in a Sum's tree, including the incoming one.
size_t depth_of(const Reductions::Sum& sum) {
  LS_CHECK(!sum.sources.empty() && sum.sources.size() == sum.merges.size(), sum.sources.size(), " sources, ",
           sum.merges.size(), " counts of merges");
  int64_t depth = 0, deepest = 0;
  for (int merges : sum.merges) {
    deepest = std::max(deepest, ++depth);
    LS_CHECK(merges >= 0 && merges < depth, merges, " merges of ", depth, " partials");
    depth -= merges;
  }
  LS_CHECK(depth == 1, depth, " partials are left of a sum over ", sum.sources.size(), " sources");
  return deepest;
}

// `count` elements of a source from element `at` on, as f32: in place, or widened into `room`.
const float* values_of(const Reductions::Source& source, int64_t at, int64_t count, float* room) {
  if (source.dtype == DType::f32) return static_cast<const float*>(source.at) + at;
  widen(source.dtype,
        static_cast<const std::byte*>(source.at) + at * static_cast<int64_t>(size_of(source.dtype)), room,
        count);
  return room;
}

// The tree over sources[i][at .. at + count), count <= kBlock. The result is in sum.out if that is set, else
// in one of the buffers. `between` has room for depth_of(sum) blocks, `stack` for as many pointers.
const float* merge(const Reductions::Sum& sum, int64_t at, int64_t count, float* between, const float** stack,
                   const LaneKernels& kernels) {
  float* out = sum.out ? sum.out + at : between;
  if (sum.sources.size() == 1) {
    const float* values = values_of(sum.sources[0], at, count, out);
    if (!sum.out || out == values) return values;
    std::memcpy(out, values, count * sizeof(float));
    return out;
  }
  size_t depth = 0, left_to_do = sum.sources.size() - 1;
  for (size_t s = 0; s < sum.sources.size(); ++s) {
    stack[depth] = values_of(sum.sources[s], at, count, between + static_cast<int64_t>(depth) * kBlock);
    ++depth;
    for (int m = 0; m < sum.merges[s]; ++m) {
      --depth;
      float* to = --left_to_do ? between + static_cast<int64_t>(depth - 1) * kBlock : out;
      kernels.add(to, stack[depth - 1], stack[depth], count);
      stack[depth - 1] = to;
    }
  }
  return out;
}

class CpuReductions : public Reductions {
 public:
  explicit CpuReductions(int threads) : threads_(std::max(1, threads)) {}

  void accumulate(std::span<const Run> runs, std::span<const float* const> lefts, float* to,
                  Stream& stream) override {
    stream.run(
        [this, to, runs = std::vector<Run>(runs.begin(), runs.end()),
         lefts = std::vector<const float*>(lefts.begin(), lefts.end())] { accumulate_now(runs, lefts, to); });
  }
  void sum(std::span<const Sum> sums, Stream& stream) override {
    stream.run([this, sums = std::vector<Sum>(sums.begin(), sums.end())] { sum_now(sums); });
  }
  void limbs(std::span<const Doubles> addends, int64_t* words, Stream& stream) override {
    stream.run([this, words, addends = std::vector<Doubles>(addends.begin(), addends.end())] {
      limbs_now(addends, words);
    });
  }
  void norm_of_limbs(const int64_t* words, float* norm, Stream& stream) override {
    stream.run([words, norm] {
      Limbs limbs;
      std::memcpy(limbs.words, words, sizeof limbs.words);
      *norm = limbs.norm();
    });
  }
  void sum_rows(const Rows& rows, Stream& stream) override {
    stream.run([this, rows] { row_sums_.sum(rows, threads_); });
  }
  void take_rows(const Taken& taken, Stream& stream) override {
    stream.run([this, taken] { compiler::take_rows(taken, threads_); });
  }
  void put_rows(const Placed& placed, Stream& stream) override {
    stream.run([this, placed] { compiler::put_rows(placed, threads_); });
  }
  void copy(std::span<const Copy> copies, Stream& stream) override {
    stream.run([this, copies = std::vector<Copy>(copies.begin(), copies.end())] { copy_now(copies); });
  }
  void checksums(std::span<const Bytes> parts, uint64_t* sums, const int64_t* wanted,
                 Stream& stream) override {
    stream.run([=, this, parts = std::vector<Bytes>(parts.begin(), parts.end())] {
      checksums_now(parts, sums, *wanted != 0);
    });
  }
  void add(int64_t* totals, const int64_t* addend, int64_t count, Stream& stream) override {
    stream.run([=] {
      for (int64_t i = 0; i < count; ++i) totals[i] += addend[i];
    });
  }

 private:
  // One pass over memory: intermediate results of an element stay in the L1 cache.
  void accumulate_now(const std::vector<Run>& runs, const std::vector<const float*>& lefts, float* to) {
    if (runs.empty()) return;
    const LaneKernels& kernels = lane_kernels();
    const int64_t base = runs.front().at, span = runs.back().at + runs.back().count - base;
    const int threads = span < kParallel ? 1 : threads_;
    grow_scratch(threads, 1);
    const auto copy = span < kPast ? copy_plain : kernels.copy_past;
    in_parts(span, threads, [&](int part, int64_t begin, int64_t end) {
      begin += base, end += base;
      float* between = scratch_.data() + static_cast<size_t>(part) * kBlock;
      auto run = std::partition_point(runs.begin(), runs.end(),
                                      [&](const Run& r) { return r.at + r.count <= begin; });
      for (; run != runs.end() && run->at < end; ++run) {
        const int64_t run_end = std::min(end, run->at + run->count);
        for (int64_t i = std::max(begin, run->at); i < run_end; i += kBlock) {
          const int64_t n = std::min(kBlock, run_end - i);
          const float* right =
              values_of({run->from, run->dtype}, i - run->at, n, lefts.empty() ? to + i : between);
          if (lefts.empty() && right != to + i) copy(to + i, right, n);
          for (size_t l = 0; l < lefts.size(); ++l) {
            float* sum = l + 1 == lefts.size() ? to + i : between;
            kernels.add(sum, lefts[l] + i, right, n);
            right = sum;
          }
        }
      }
    });
  }

  void sum_now(const std::vector<Sum>& sums) {
    std::vector<int64_t> first_piece{0};  // per sum; then the end
    std::vector<int64_t> squares_at;      // per sum: its pieces of long rows in piece_squares_
    size_t depth = 0;
    int64_t elements = 0, piece_squares = 0;
    for (const Sum& sum : sums) {
      depth = std::max(depth, depth_of(sum));
      const Cut cut(sum.width);
      const int64_t pieces = sum.width ? cut.pieces(sum.rows) : 0;
      squares_at.push_back(piece_squares);
      if (cut.pieces_per_row > 1 && sum.row_squares) piece_squares += pieces;
      first_piece.push_back(first_piece.back() + pieces);
      elements += sum.rows * sum.width;
      if (sum.width == 0 && sum.row_squares) std::fill_n(sum.row_squares, sum.rows, 0.0);
    }
    const int threads = elements < kParallel ? 1 : threads_;
    grow_scratch(threads, depth);
    if (piece_squares_.size() < static_cast<size_t>(piece_squares)) piece_squares_.resize(piece_squares);
    const LaneKernels& kernels = lane_kernels();
    in_parts(first_piece.back(), threads, [&](int part, int64_t begin, int64_t end) {
      float* between = scratch_.data() + static_cast<size_t>(part) * depth * kBlock;
      std::vector<const float*> stack(depth);
      size_t s = static_cast<size_t>(std::upper_bound(first_piece.begin(), first_piece.end(), begin) -
                                     first_piece.begin()) -
                 1;
      for (; begin < end; ++s) {
        const Sum& sum = sums[s];
        const Cut cut(sum.width);
        for (; begin < std::min(end, first_piece[s + 1]); ++begin) {
          const int64_t piece = begin - first_piece[s];
          if (cut.pieces_per_row > 1) {
            const int64_t column = piece % cut.pieces_per_row * kBlock,
                          n = std::min(kBlock, sum.width - column);
            const int64_t at = piece / cut.pieces_per_row * sum.width + column;
            const float* total = merge(sum, at, n, between, stack.data(), kernels);
            if (sum.row_squares) piece_squares_[squares_at[s] + piece] = kernels.squares(total, n);
          } else {
            const int64_t first = piece * cut.rows_per_piece,
                          number = std::min(cut.rows_per_piece, sum.rows - first);
            const float* total =
                merge(sum, first * sum.width, number * sum.width, between, stack.data(), kernels);
            for (int64_t r = 0; sum.row_squares && r < number; ++r)
              sum.row_squares[first + r] = kernels.squares(total + r * sum.width, sum.width);
          }
        }
      }
    });
    for (size_t s = 0; s < sums.size(); ++s) {
      const Cut cut(sums[s].width);
      if (cut.pieces_per_row == 1 || !sums[s].row_squares) continue;
      const double* squares = piece_squares_.data() + squares_at[s];
      for (int64_t r = 0; r < sums[s].rows; ++r) {
        double total = 0;
        for (int64_t p = 0; p < cut.pieces_per_row; ++p) total += *squares++;
        sums[s].row_squares[r] = total;
      }
    }
  }

  void limbs_now(const std::vector<Doubles>& addends, int64_t* words) {
    int64_t count = 0;
    for (const Doubles& d : addends) count += d.count;
    const int threads = count < kParallel ? 1 : threads_;
    std::vector<Limbs> parts(threads);
    in_parts(count, threads, [&](int part, int64_t begin, int64_t end) {
      Limbs sum;
      for (const Doubles& d : addends) {
        const int64_t from = std::clamp<int64_t>(begin, 0, d.count),
                      to = std::clamp<int64_t>(end, 0, d.count);
        sum.add(std::span(d.from + from, to - from));
        begin -= d.count, end -= d.count;
      }
      parts[part] = sum;
    });
    Limbs total;
    for (const Limbs& part : parts) total.add(part);
    total.normalise();
    std::memcpy(words, total.words, sizeof total.words);
  }

  void copy_now(const std::vector<Copy>& copies) {
    size_t bytes = 0;
    for (const Copy& c : copies) bytes += c.bytes;
    const int threads = bytes < kParallel * sizeof(float) ? 1 : threads_;
    in_parts(static_cast<int64_t>(bytes), threads, [&](int, int64_t begin, int64_t end) {
      for (const Copy& c : copies) {
        const auto all = static_cast<int64_t>(c.bytes);
        const int64_t from = std::clamp<int64_t>(begin, 0, all), to = std::clamp<int64_t>(end, 0, all);
        if (from < to && c.to != c.from)
          std::memcpy(static_cast<std::byte*>(c.to) + from, static_cast<const std::byte*>(c.from) + from,
                      to - from);
        begin -= all, end -= all;
      }
    });
  }

  void checksums_now(const std::vector<Bytes>& parts, uint64_t* sums, bool wanted) {
    std::fill(sums, sums + parts.size(), 0);
    if (!wanted) return;
    size_t bytes = 0;
    for (const Bytes& part : parts) bytes += part.bytes;
    const int threads = bytes < kParallel * sizeof(float) ? 1 : threads_;
    std::vector<std::vector<uint64_t>> found(threads, std::vector<uint64_t>(parts.size()));
    int64_t words = 0;
    for (const Bytes& part : parts) words += static_cast<int64_t>(part.bytes / 8);
    in_parts(words, threads, [&](int thread, int64_t begin, int64_t end) {
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto all = static_cast<int64_t>(parts[i].bytes / 8);
        const int64_t from = std::clamp<int64_t>(begin, 0, all), to = std::clamp<int64_t>(end, 0, all);
        const auto* at = static_cast<const uint64_t*>(parts[i].from);
        uint64_t sum = 0;
        for (int64_t w = from; w < to; ++w) sum += at[w];
        found[thread][i] = sum;
        begin -= all, end -= all;
      }
    });
    for (size_t i = 0; i < parts.size(); ++i) {
      for (const auto& one : found) sums[i] += one[i];
      if (parts[i].bytes % 8 == 0) continue;  // an empty part may have a null address
      uint64_t last = 0;
      std::memcpy(&last, static_cast<const std::byte*>(parts[i].from) + parts[i].bytes / 8 * 8,
                  parts[i].bytes % 8);
      sums[i] += last;
    }
  }

  void grow_scratch(int threads, size_t blocks) {
    const size_t size = static_cast<size_t>(threads) * blocks * kBlock;
    if (scratch_.size() < size) scratch_.resize(size);
  }

  int threads_;
  std::vector<float> scratch_;  // temporaries, per thread
  std::vector<double> piece_squares_;
  RowSums row_sums_;
};
}  // namespace

std::unique_ptr<Reductions> make_cpu_reductions(int threads) {
  return std::make_unique<CpuReductions>(threads);
}

}  // namespace lockstep::compiler
