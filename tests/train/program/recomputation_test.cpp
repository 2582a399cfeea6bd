// A micro-batch that all data ranks compute again: the same checksums on each, whatever the mesh, other ones
// where a rank reads another bit, and a run that is what it is without it.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

using compiler::Backend;
using compiler::GatherWhen;
using Sums = std::map<int64_t, std::vector<uint64_t>>;  // by rank

// The checksums of each rank, of micro-batch m behind step 2, for each m in `which`.
std::map<int64_t, Sums> recomputed(TinyRun run, const std::vector<int64_t>& which,
                                   int64_t flipped_rank = -1) {
  std::map<int64_t, Sums> out;
  std::mutex mutex;
  run.after_step = [&](const LiveMesh& mesh, compiler::Step& step, const compiler::StepInput& fed) {
    if (fed.step != 2) return;
    for (int64_t m : which) {
      compiler::StepInput asked = fed;
      if (mesh.rank == flipped_rank)
        asked.fill = [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
          fed.fill(first, count, fields);
          *static_cast<std::byte*>(fields[0]) ^= std::byte{1};
        };
      const auto sums = step.recompute(asked, m);
      std::lock_guard guard(mutex);
      out[m][mesh.rank] = sums;
    }
  };
  TinyRun plain = run;
  plain.after_step = {};
  expect_same(train_tiny(run), train_tiny(plain), "with recomputations and without");
  return out;
}

// Ranks with the same place along tp say the same.
void expect_alike(const std::map<int64_t, Sums>& found, int64_t places) {
  std::set<std::vector<uint64_t>> different;
  for (const auto& [m, sums] : found)
    for (const auto& [rank, mine] : sums) {
      EXPECT_FALSE(mine.empty());
      EXPECT_EQ(mine, sums.at(rank % places)) << "micro-batch " << m << ", rank " << rank;
      different.insert(mine);
    }
  EXPECT_EQ(different.size(), found.size() * static_cast<size_t>(places)) << "each has gradients of its own";
}

TEST(Recomputation, IsTheSameOnAllDataRanks) {
  const std::vector<int64_t> which = {0, 3, 5};
  expect_alike(recomputed({.ranks = 3, .dropout = 0.1}, which), 1);
  expect_alike(recomputed({.ranks = 7, .dropout = 0.1}, which), 1);  // one of them has no lane
  expect_alike(recomputed({.compute = DType::bf16, .ranks = 2, .dropout = 0.1}, which), 1);
  for (int zero : {1, 2, 3})
    expect_alike(recomputed({.compute = DType::bf16, .mesh = {{3}, {"dp_shard"}}, .zero = zero}, which), 1);
  expect_alike(recomputed({.mesh = {{2, 2}, {"dp_replicate", "dp_shard"}}, .dropout = 0.1}, which), 1);
  expect_alike(recomputed({.mesh = {{2, 2}, {"dp_replicate", "tp"}}}, which), 2);
  expect_alike(recomputed({.compute = DType::bf16, .mesh = {{6}, {"dp_replicate"}}}, which), 1);
  for (GatherWhen when : {GatherWhen::micro_batch, GatherWhen::layers}) {
    TinyRun run{.mesh = {{2}, {"dp_shard"}}, .dropout = 0.1};
    run.options.gather = when;
    expect_alike(recomputed(run, which), 1);
  }
  for (Backend backend : {Backend::eager, Backend::reference}) {
    TinyRun run{.ranks = 2, .steps = 2};
    run.options.backend = backend;
    expect_alike(recomputed(run, {1}), 1);
  }
}

TEST(Recomputation, TellsARankThatReadsAnotherBit) {
  const auto found = recomputed({.ranks = 3}, {2}, 1);
  const Sums& sums = found.at(2);
  EXPECT_EQ(sums.at(0), sums.at(2));
  EXPECT_NE(sums.at(0), sums.at(1));
}

}  // namespace
}  // namespace lockstep::tests
