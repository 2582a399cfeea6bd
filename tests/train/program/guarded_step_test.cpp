// Steps that are not applied leave every bit as it was, on any mesh; flipped bits show in the checksums of
// replicas.
#include <gtest/gtest.h>

#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

TinyRun run_of(TinyRun run, int64_t steps, std::set<int64_t> blocked) {
  run.steps = steps;
  run.blocked = std::move(blocked);
  return run;
}

TEST(GuardedStep, ABlockedStepChangesNothing) {
  std::vector<std::pair<std::string, TinyRun>> runs;
  auto add = [&](const std::string& what, auto change) {
    TinyRun run;
    run.global = 8, run.micro = 2;
    change(run);
    runs.emplace_back(what, run);
  };
  add("one rank", [](TinyRun&) {});
  add("ddp", [](TinyRun& run) { run.ranks = 3; });
  add("zero 2", [](TinyRun& run) { run.mesh = Mesh{{2}, {"dp_shard"}}, run.zero = 2; });
  add("fsdp", [](TinyRun& run) { run.mesh = Mesh{{2}, {"dp_shard"}}; });
  add("hsdp, bf16",
      [](TinyRun& run) { run.mesh = Mesh{{2, 2}, {"dp_replicate", "dp_shard"}}, run.compute = DType::bf16; });
  add("bf16", [](TinyRun& run) { run.ranks = 2, run.compute = DType::bf16; });
  add("no clipping", [](TinyRun& run) { run.ranks = 2, run.clip = 0; });
  add("reference",
      [](TinyRun& run) { run.ranks = 2, run.options.backend = compiler::Backend::reference, run.depth = 1; });
  add("eager",
      [](TinyRun& run) { run.ranks = 2, run.options.backend = compiler::Backend::eager, run.depth = 1; });
  for (const auto& [what, run] : runs) {
    SCOPED_TRACE(what);
    EXPECT_EQ(train_tiny(run_of(run, 2, {2})).hash, train_tiny(run_of(run, 1, {})).hash);
    EXPECT_NE(train_tiny(run_of(run, 2, {})).hash, train_tiny(run_of(run, 1, {})).hash);
  }
}

TEST(GuardedStep, SameBitsOnAnyRankCount) {
  TinyRun run;
  run.steps = 5, run.blocked = {2, 4};
  const TinyResult one = train_tiny(run);
  for (int ranks : {2, 4}) {
    run.ranks = ranks;
    expect_same(one, train_tiny(run), std::to_string(ranks));
  }
  run.mesh = Mesh{{2, 2}, {"dp_replicate", "dp_shard"}};
  expect_same(one, train_tiny(run), "hsdp");
}

TEST(GuardedStep, AFlippedBitIsFoundInItsStep) {
  TinyRun run;
  run.steps = 3, run.flipped = 2;
  for (int ranks : {3, 4}) {
    run.ranks = ranks;
    EXPECT_EQ(train_tiny(run).differs,
              ranks == 3 ? "step 2: token.weight on rank 1 is not what it is on ranks 0, 2"
                         : "step 2: token.weight on rank 1 is not what it is on ranks 0, 2, 3");
  }
  run.ranks = 2;
  EXPECT_EQ(train_tiny(run).differs,
            "step 2: token.weight is not the same on ranks 0, 1, and there are too few ranks to tell which "
            "is wrong");
  // Replicas along one dim of two: rank 1 holds the second half of the rows, and so does rank 3.
  run.mesh = Mesh{{2, 2}, {"dp_replicate", "dp_shard"}};
  EXPECT_EQ(train_tiny(run).differs,
            "step 2: token.weight is not the same on ranks 1, 3, and there are too few ranks to tell which "
            "is wrong");
}

TEST(GuardedStep, ReplicasAreAlike) {
  TinyRun run;
  for (const Mesh& mesh : {Mesh{{3}, {"dp_replicate"}}, Mesh{{2}, {"dp_shard"}},
                           Mesh{{2, 2}, {"dp_replicate", "dp_shard"}}, Mesh{{2, 2}, {"dp_replicate", "tp"}}})
    for (DType dtype : {DType::f32, DType::bf16}) {
      run.mesh = mesh, run.compute = dtype;
      EXPECT_EQ(train_tiny(run).differs, "") << text(mesh);
    }
}

}  // namespace
}  // namespace lockstep::tests
