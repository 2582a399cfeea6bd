// Same bits on any number of ranks: losses, gradient norms, state hash and certificate compared as strings.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

class Models : public testing::TestWithParam<std::string> {};

TEST_P(Models, RanksGiveOneHash) {
  TinyRun run{.model = GetParam(), .mask_every = 7};
  TinyResult one = train_tiny(run);
  for (int ranks : {2, 3, 4}) {
    run.ranks = ranks;
    TinyResult many = train_tiny(run);
    expect_same(one, many, str(ranks, " ranks"));
    EXPECT_EQ(one.certificate, many.certificate) << ranks << " ranks";
  }
  EXPECT_NE(one.losses.front(), one.losses.back())
      << "training changes nothing: the comparison would be empty";
}

// M = 6, 7, 8 micro-batches (lanes = M), 24 in 8 lanes, more ranks than lanes.
TEST_P(Models, MicroBatchCountsAndRankCounts) {
  for (auto [global, lanes] : {std::pair<int64_t, int64_t>{24, 6}, {28, 7}, {32, 8}, {96, 8}}) {
    TinyRun run{.model = GetParam(), .global = global, .lanes = lanes, .steps = 2};
    TinyResult one = train_tiny(run);
    for (int ranks : {2, 3, 5, 9}) {
      run.ranks = ranks;
      expect_same(one, train_tiny(run), str("M = ", global / 4, ", lanes ", lanes, ", ranks ", ranks));
    }
  }
}

TEST_P(Models, BucketsThreadsFusionCacheAndDropoutChangeNoBit) {
  TinyRun run{.model = GetParam(), .dropout = 0.1};
  TinyResult base = train_tiny(run);
  run.ranks = 3;
  expect_same(base, train_tiny(run), "dropout on 3 ranks");
  for (int64_t bytes : {int64_t{1}, int64_t{64} << 20}) {
    TinyRun other = run;
    other.options.bucket_bytes = bytes;
    expect_same(base, train_tiny(other), str("bucket_bytes ", bytes));
  }
  for (int threads : {1, 2}) {
    TinyRun other = run;
    other.ranks = 2;
    other.options.threads = threads;
    expect_same(base, train_tiny(other), str("threads ", threads));
  }
  TinyRun unfused = run;
  unfused.options.fusion = false;
  expect_same_bits(base, train_tiny(unfused), "fusion off");
  TinyRun eager = run;
  eager.options.backend = compiler::Backend::eager;
  expect_same_bits(base, train_tiny(eager), "eager backend");
  ScratchFolder folder;
  TinyRun cold = run;
  cold.options.cache_dir = folder.path("");
  expect_same(base, train_tiny(cold), "cold kernel cache");
  expect_same(base, train_tiny(cold), "warm kernel cache");
}

// numerics "free": the same training but for rounding, which the certificate says. 6 micro-batches, and 2 on
// 3 ranks, where one is idle.
TEST_P(Models, FreeNumericsStayClose) {
  for (int64_t global : {24, 8}) {
    TinyRun run{.model = GetParam(), .global = global, .mask_every = 7};
    const TinyResult want = train_tiny(run);
    run.options.invariant = false;
    for (int ranks : {1, 2, 3}) {
      run.ranks = ranks;
      const TinyResult got = train_tiny(run);
      ASSERT_EQ(got.losses.size(), want.losses.size());
      for (size_t i = 0; i < want.losses.size(); ++i) {
        EXPECT_LT(relative_difference(want.losses[i], got.losses[i]), 1e-5)
            << global << " samples, " << ranks << " ranks, step " << i;
        EXPECT_LT(relative_difference(want.norms[i], got.norms[i]), 1e-4)
            << global << " samples, " << ranks << " ranks, step " << i;
      }
      EXPECT_NE(got.certificate, want.certificate) << ranks << " ranks";
    }
  }
}

TEST_P(Models, DropoutMasksDifferBetweenMicroBatches) {
  // With all micro-batches on equal data the losses with and without dropout differ; and one micro-batch of
  // everything sees the same masks as many small ones, because a mask belongs to a sample.
  TinyRun run{.model = GetParam(), .steps = 1, .dropout = 0.2};
  TinyRun none = run;
  none.dropout = 0;
  EXPECT_NE(train_tiny(run).losses, train_tiny(none).losses);
  TinyRun whole = run;
  whole.micro = run.global;
  EXPECT_LT(relative_difference(train_tiny(run).losses[0], train_tiny(whole).losses[0]), 1e-5);
}

TEST_P(Models, BackendsAgreeWithinTheTable) {
  TinyRun run{.model = GetParam(), .mask_every = 5};
  run.options.backend = compiler::Backend::reference;
  TinyResult reference = train_tiny(run);
  for (compiler::Backend backend : {compiler::Backend::native, compiler::Backend::eager}) {
    run.options.backend = backend;
    TinyResult other = train_tiny(run);
    for (size_t i = 0; i < reference.losses.size(); ++i) {
      EXPECT_LT(relative_difference(reference.losses[i], other.losses[i]), 2e-5) << "loss of step " << i + 1;
      EXPECT_LT(relative_difference(reference.norms[i], other.norms[i]), 1e-4) << "norm of step " << i + 1;
    }
  }
  run.options.backend = compiler::Backend::reference;
  run.ranks = 3;
  expect_same_bits(reference, train_tiny(run), "reference backend on 3 ranks");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Models, testing::Values("gpt", "llama"));

}  // namespace
}  // namespace lockstep::tests
