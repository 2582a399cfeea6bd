// A stable radix sort by id; then each id's rows are added in their order of appearance.
#include "compiler/codegen/sums/row_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "compiler/codegen/sums/lane_kernels.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
constexpr int kSortBits = 11;
constexpr int64_t kSortValues = int64_t{1} << kSortBits;
void check(int32_t id, int64_t position, int64_t table_rows) {
  if (id < 0 || id >= table_rows)
    throw UserError(
        str("index ", id, " at position ", position, " is outside the table of ", table_rows, " rows"));
}
}  // namespace

void RowSums::sort(const Reductions::Rows& all) {
  sorted_.clear();
  const int64_t owned = all.owned < 0 ? all.table_rows : all.owned;
  for (int64_t i = 0; i < all.count; ++i) {
    check(all.ids[i], i, all.table_rows);
    if (all.ids[i] >= all.first && all.ids[i] < all.first + owned)
      sorted_.push_back({static_cast<int32_t>(all.ids[i] - all.first), static_cast<int32_t>(i)});
  }
  other_.resize(sorted_.size());
  for (int shift = 0; shift < 31 && (owned - 1) >> shift > 0; shift += kSortBits) {
    std::array<int64_t, kSortValues + 1> at{};
    auto digit = [shift](const Entry& entry) { return (entry.id >> shift) & (kSortValues - 1); };
    for (const Entry& entry : sorted_) ++at[digit(entry) + 1];
    for (size_t d = 0; d < kSortValues; ++d) at[d + 1] += at[d];
    for (const Entry& entry : sorted_) other_[at[digit(entry)]++] = entry;
    sorted_.swap(other_);
  }
}

void RowSums::sum(const Reductions::Rows& all, int threads) {
  sort(all);
  first_.clear();
  const auto kept = static_cast<int64_t>(sorted_.size());
  for (int64_t i = 0; i < kept; ++i)
    if (i == 0 || sorted_[i].id != sorted_[i - 1].id) first_.push_back(i);
  const auto distinct = static_cast<int64_t>(first_.size()), width = all.width;
  first_.push_back(kept);
  const LaneKernels& kernels = lane_kernels();
  const auto bytes = static_cast<size_t>(width) * sizeof(float);
#pragma omp parallel for num_threads(threads) \
    schedule(static) if (threads > 1 && all.count * width >= kParallel)
  for (int64_t k = 0; k < distinct; ++k) {
    float* out = all.out_rows + k * width;
    const int64_t begin = first_[k], end = first_[k + 1];
    std::memcpy(out, all.rows + sorted_[begin].place * width, bytes);
    for (int64_t i = begin + 1; i < end; ++i)
      kernels.add(out, out, all.rows + sorted_[i].place * width, width);
    all.out_ids[k] = sorted_[begin].id;
    double squares = 0;
    for (int64_t c = 0; c < width; c += kBlock)
      squares += kernels.squares(out + c, std::min(kBlock, width - c));
    all.squares[k] = squares;
  }
  for (int64_t k = distinct; k < all.count; ++k) {
    all.out_ids[k] = distinct ? all.out_ids[distinct - 1] : -1, all.squares[k] = 0;
    float* out = all.out_rows + k * width;
    distinct ? std::memcpy(out, all.out_rows + (distinct - 1) * width, bytes) : std::memset(out, 0, bytes);
  }
}

void take_rows(const Reductions::Taken& taken, int threads) {
  const int64_t width = taken.width;
  const auto bytes = static_cast<size_t>(width) * sizeof(float);
  for (const auto& part : taken.parts) {
    for (int64_t i = 0; i < part.count && taken.table_rows > 0; ++i) check(part.ids[i], i, taken.table_rows);
#pragma omp parallel for num_threads(threads) \
    schedule(static) if (threads > 1 && part.count * width > kParallel)
    for (int64_t i = 0; i < part.count; ++i) {
      const int64_t row = part.ids[i] - taken.first;
      float* to = part.to + i * width;
      if (row >= 0 && row < taken.rows)
        std::memcpy(to, taken.table + row * width, bytes);
      else
        std::memset(to, 0, bytes);
    }
  }
}

void put_rows(const Reductions::Placed& placed, int threads) {
  for (const auto& gate : placed.gates)
    if (!is_within(static_cast<float>(get_double(gate.dtype, gate.value, 0)), *gate.limit)) return;
  const int64_t width = placed.width;
  const int32_t* ids = placed.ids;
#pragma omp parallel for num_threads(threads) \
    schedule(static) if (threads > 1 && placed.count * width > kParallel)
  for (int64_t k = 0; k < placed.count; ++k)
    if (ids[k] >= 0 && (k == 0 || ids[k] != ids[k - 1]))
      std::memcpy(placed.table + ids[k] * width, placed.rows + k * width,
                  static_cast<size_t>(width) * sizeof(float));
}

}  // namespace lockstep::compiler
