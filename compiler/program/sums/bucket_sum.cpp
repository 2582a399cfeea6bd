// Code shared by all implementations of a bucket's sum.
#include "compiler/program/sums/bucket_sum.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/base/error.h"

namespace lockstep::compiler {

void SumTurns::share_sets(const std::vector<int64_t>& bytes) {
  if (bytes.empty()) return;
  const auto together = [&](size_t at) {
    SumTurns turns{.seam = at};
    std::array<int64_t, kSets> sets{};
    for (size_t b = 0; b < bytes.size(); ++b)
      sets[turns.set_of(b)] = std::max(sets[turns.set_of(b)], bytes[b]);
    return std::accumulate(sets.begin(), sets.end(), int64_t{0});
  };
  const int64_t alternating = together(SIZE_MAX), largest = std::ranges::max(bytes);
  std::pair best{alternating - std::max<int64_t>(alternating / 8, 1), INT64_MAX};
  for (size_t at = 1; at < bytes.size(); ++at)
    if (const std::pair by{together(at), bytes[at - 1]}; by < best && 4 * by.second <= largest)
      best = by, seam = at;
}

void SumTurns::stage(BucketSum* bucket) {
  if (staged && staged != bucket) staged->advance();
  staged = bucket;
}

std::vector<Accumulate::Piece> bucket_pieces(const PackedRows& rows, const std::vector<Span>& gradients) {
  LS_CHECK(gradients.size() == rows.tensors(), gradients.size(), " gradients for ", rows.tensors(),
           " tensors");
  const auto size = static_cast<int64_t>(size_of(rows.dtype()));
  std::vector<Accumulate::Piece> out;
  for (const auto& run : rows.layout())
    out.push_back({gradients[run.tensor].part(run.from * size, run.count * size), run.at, rows.dtype()});
  return out;
}

SumTrees::Tree BucketSum::tree_of(size_t tensor, Span out) const {
  SumTrees::Tree tree = addends_of(tensor);
  tree.out = out.there() ? out : tree.sources.at(0).at;
  if (!row_squares_.empty()) tree.row_squares = row_squares_.at(tensor);
  return tree;
}

}  // namespace lockstep::compiler
