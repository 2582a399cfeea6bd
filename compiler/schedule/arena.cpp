// Colours intervals greedily by size.
#include "compiler/schedule/arena.h"

#include <algorithm>
#include <numeric>

namespace lockstep::compiler {

namespace {
constexpr int64_t kAlignment = 256;  // the alignment that libraries of any device require
}  // namespace

int64_t aligned_bytes(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

ArenaPlan plan_arena(const std::vector<Lifetime>& lifetimes) {
  ArenaPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<size_t> placed;
  for (size_t i : order) {
    std::vector<std::pair<int64_t, int64_t>> busy;  // {offset, end} of buffers alive at the same time
    for (size_t j : placed)
      if (lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last)
        busy.emplace_back(plan.offsets[j], plan.offsets[j] + aligned_bytes(lifetimes[j].bytes));
    std::sort(busy.begin(), busy.end());
    int64_t at = 0;
    for (auto [from, to] : busy) {
      if (from - at >= aligned_bytes(lifetimes[i].bytes)) break;
      at = std::max(at, to);
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + aligned_bytes(lifetimes[i].bytes));
    placed.push_back(i);
  }
  int end = 0;
  for (const auto& life : lifetimes) end = std::max(end, life.last);
  std::vector<int64_t> alive(static_cast<size_t>(end) + 2, 0);
  for (const auto& life : lifetimes)
    alive[life.first] += aligned_bytes(life.bytes), alive[life.last + 1] -= aligned_bytes(life.bytes);
  int64_t now = 0;
  for (int64_t change : alive) plan.floor = std::max(plan.floor, now += change);
  return plan;
}

}  // namespace lockstep::compiler
