// Chooses the number of pieces by a formula of two clocks, compute and link.
#include "compiler/partition/piece_count.h"

#include <algorithm>

namespace lockstep::compiler {

namespace {
constexpr int64_t kChoices[] = {2, 4, 8};
}  // namespace

std::optional<PieceCut> cut_into(int64_t pieces, int64_t sequences, int64_t tokens, int64_t shards) {
  if (sequences % pieces == 0) return PieceCut{0, pieces};
  if (sequences == 1 && tokens % (pieces * shards) == 0) return PieceCut{1, pieces};
  return std::nullopt;
}

PieceCut cut_into_most(int64_t most, int64_t sequences, int64_t tokens, int64_t shards) {
  for (int64_t pieces = most; pieces > 1; --pieces)
    if (auto cut = cut_into(pieces, sequences, tokens, shards)) return *cut;
  return {};
}

double seconds_of(const TravellingProducts& one, int64_t pieces, const TravelRates& rates) {
  const auto n = static_cast<double>(pieces);
  const double computes = one.flops / rates.flops,
               travels = n * one.collectives * rates.latency + one.bytes / rates.bandwidth;
  return std::max(computes, travels) + std::min(computes, travels) / n + (n - 1) * one.waves / rates.flops;
}

PieceCut best_cut(const std::vector<TravellingProducts>& products, int64_t sequences, int64_t tokens,
                  int64_t shards, const TravelRates& rates) {
  auto all = [&](int64_t pieces) {
    double seconds = 0;
    for (const auto& one : products) seconds += seconds_of(one, pieces, rates);
    return seconds;
  };
  PieceCut best;
  double least = all(1);
  for (int64_t pieces : kChoices)
    if (auto cut = cut_into(pieces, sequences, tokens, shards); cut && all(pieces) < least)
      best = *cut, least = all(pieces);
  return best;
}

}  // namespace lockstep::compiler
