// A bucket's sum as a program, run: the same bits as by definition, whatever the ranks, lanes, threads, hosts
// and owners of the rows, once a step and in rounds.
#include <bit>

#include "compiler/codegen/sums/lane_kernels.h"
#include "tests/ranks/bucket_sum_case.h"
#include "tests/ranks/expect_error.h"

namespace lockstep {

using namespace compiler;

namespace {

constexpr LaneOrder kOrders[] = {LaneOrder::contiguous, LaneOrder::interleaved};
std::string_view name(LaneOrder order) {
  return order == LaneOrder::contiguous ? "contiguous" : "interleaved";
}

// By definition: lanes folded left to right, then the tree padded to a power of two in which absent leaves
// are skipped.
float padded_tree(const Values& leaves, size_t first, size_t size) {
  if (size == 1) return leaves[first];
  const float left = padded_tree(leaves, first, size / 2);
  return first + size / 2 < leaves.size() ? left + padded_tree(leaves, first + size / 2, size / 2) : left;
}
double squares_by_definition(const float* row, int64_t count) {
  double sum = 0;
  for (int64_t from = 0; from < count; from += 2048) {
    std::vector<double> parts(16, 0.0);
    for (int64_t i = from; i < std::min(count, from + 2048); ++i)
      parts[static_cast<size_t>((i - from) % 16)] +=
          static_cast<double>(row[i]) * static_cast<double>(row[i]);
    for (; parts.size() > 1; parts.resize(parts.size() / 2))
      for (size_t j = 0; j < parts.size() / 2; ++j) parts[j] += parts[j + parts.size() / 2];
    sum += parts[0];
  }
  return sum;
}
Sums by_definition(int64_t micro_batches, int64_t lanes, const SumCase& how = {}) {
  Sums out;
  const int64_t per_lane = micro_batches / lanes;
  for (size_t b = 0; b < how.buckets.size(); ++b)
    for (size_t t = 0; t < how.buckets[b].size(); ++t) {
      const Shape& shape = how.buckets[b][t];
      const int64_t elements = numel(shape), rows = shape[0], width = rows ? elements / rows : 0;
      Values& sums = out.values.emplace_back();
      for (int64_t i = 0; i < elements; ++i) {
        Values leaves;
        for (int64_t m = 0; m < micro_batches; ++m) {
          if (m % per_lane == 0)
            leaves.push_back(gradient(m, b, t, i));
          else
            leaves.back() += gradient(m, b, t, i);
        }
        sums.push_back(padded_tree(leaves, 0, std::bit_ceil(leaves.size())));
      }
      auto& squares = out.squares.emplace_back();
      for (int64_t r = 0; r < rows; ++r)
        squares.push_back(squares_by_definition(sums.data() + r * width, width));
    }
  return out;
}

const std::vector<std::pair<int64_t, int64_t>> kBatches{{1, 1},   {2, 1},   {2, 2},  {3, 3},  {4, 4},
                                                        {6, 6},   {6, 2},   {7, 7},  {12, 6}, {16, 4},
                                                        {16, 16}, {13, 13}, {24, 8}, {33, 11}};

TEST(BucketSum, TheBitsOfTheDefinitionOnAnyRanks) {
  const SumCase how{.buckets = {{{7, 3}, {1}, {5}, {0, 4}, {3, 0}, {2, 2100}}, {{5}, {16, 2}}},
                    .ends_first = true,
                    .steps = 1};
  for (auto [micro_batches, lanes] : kBatches) {
    const Sums want = by_definition(micro_batches, lanes, how);
    for (int ranks : {1, 2, 3, 4, 5, 8})
      for (LaneOrder order : kOrders)
        EXPECT_TRUE(summed({micro_batches, lanes, ranks, 0, order}, RowOwners::alone(ranks), how) == want)
            << micro_batches << " in " << lanes << " lanes on " << ranks << ", " << name(order);
  }
}

TEST(BucketSum, AnyThreadsAndShapesAndSeveralSteps) {
  // Enough elements for a parallel region on one rank and on three.
  SumCase how{.buckets = {{{40, 1000}, {3, 40000}, {1, 70001}, {50000}, {0}, {17, 2049}}}, .steps = 3};
  const Sums want = by_definition(6, 6, how);
  for (int ranks : {1, 3})
    for (int threads : {1, 2, 5}) {
      how.threads = threads;
      EXPECT_TRUE(summed({6, 6, ranks, 0}, RowOwners::alone(ranks), how) == want)
          << ranks << " ranks, " << threads << " threads";
    }
}

TEST(BucketSum, AnotherOrderGivesOtherBits) {
  const SumCase how{.buckets = {{{9, 100}}}};
  EXPECT_FALSE(summed({12, 12, 2, 0}, RowOwners::alone(2), how) == by_definition(12, 1, how));
  EXPECT_FALSE(summed({12, 4, 3, 0}, RowOwners::alone(3), how) == by_definition(12, 12, how));
}

TEST(BucketSum, RowsAsHsdpOwnsThem) {
  for (auto [micro_batches, lanes] : {std::pair<int64_t, int64_t>{1, 1}, {7, 7}, {12, 3}, {10, 5}}) {
    const Sums one = on_one_rank(micro_batches, lanes);
    for (auto [replicate, shard] : {std::pair<int, int>{1, 2}, {2, 2}, {3, 2}, {2, 4}})
      for (bool fastest : {true, false})
        EXPECT_TRUE(summed({micro_batches, lanes, replicate * shard, 0, LaneOrder::interleaved},
                           {shard, replicate, fastest}) == one)
            << "M " << micro_batches << ", lanes " << lanes << ", " << replicate << " x " << shard
            << (fastest ? "" : ", the other way round");
  }
}

// The exchange host by host.
TEST(BucketSum, TheBitsOfOneRankForAnyHosts) {
  for (auto [micro_batches, lanes] : kBatches) {
    const Sums one = on_one_rank(micro_batches, lanes);
    for (auto [ranks, seats] : std::vector<std::pair<int, int>>{{4, 2}, {6, 2}, {6, 3}, {8, 4}, {12, 4}})
      for (LaneOrder order : kOrders)
        EXPECT_TRUE(summed({micro_batches, lanes, ranks, 0, order}, RowOwners::alone(ranks),
                           {.seats = seats, .ends_first = ranks % 4 == 0}) == one)
            << "M " << micro_batches << ", lanes " << lanes << ", " << ranks << " ranks, " << seats
            << " a host, " << name(order);
  }
  const Sums one = on_one_rank(12, 12);
  for (LaneOrder order : kOrders)
    for (auto owners : {RowOwners{4, 2, true}, RowOwners{2, 4, true}, RowOwners{4, 2, false}})
      for (int seats : {2, 4})
        EXPECT_TRUE(summed({12, 12, 8, 0, order}, owners, {.seats = seats, .ends_first = true}) == one)
            << seats;
}

// A device that adds few partials at once gets the subtrees of a round one by one.
TEST(BucketSum, FewPartialsAtOnce) {
  const Sums one = on_one_rank(16, 16);
  for (size_t most : {size_t{7}, size_t{8}, size_t{10}}) {
    const LanePlan plan{16, 16, 8, 0, LaneOrder::interleaved};
    const SumCase how{.seats = 2, .limits = {most, SIZE_MAX, "a device"}};
    EXPECT_TRUE(summed(plan, RowOwners::alone(8), how) == one) << most;
    for (const Instr& instr : sum_program(plan, RowOwners::alone(8), how).program.instrs) {
      const auto* sums = std::get_if<SumTrees>(&instr.what);
      if (!sums) continue;
      for (const auto& tree : sums->trees) EXPECT_LE(tree.sources.size(), most);
    }
  }
}

// Where two large buckets share a set of staging, and small neighbours at the seam, the bits stay.
TEST(BucketSum, TheBitsWithASeam) {
  const SumCase how{.buckets = {{{16, 20}}, {{3, 2}}, {{4}}, {{16, 21}}}, .ends_first = true};
  SumTurns turns;
  turns.share_sets({320, 6, 4, 336});
  EXPECT_EQ(turns.seam, 3u) << "behind the smallest";
  for (auto [micro_batches, lanes] : {std::pair<int64_t, int64_t>{4, 4}, {6, 3}, {12, 12}, {13, 13}}) {
    const Sums one = by_definition(micro_batches, lanes, how);
    for (auto [ranks, seats] : std::vector<std::pair<int, int>>{{2, 0}, {4, 0}, {4, 2}, {8, 4}}) {
      SumCase on = how;
      on.seats = seats;
      EXPECT_TRUE(summed({micro_batches, lanes, ranks, 0, LaneOrder::interleaved}, RowOwners::alone(ranks),
                         on) == one)
          << micro_batches << " in " << lanes << " lanes on " << ranks << ", " << seats << " a host";
    }
  }
}

// In rounds the pass that ends a sum squares its rows: no sum is read again for the norm.
TEST(BucketSum, TheLastRoundSquaresWhatItAdds) {
  for (auto [micro_batches, lanes, ranks, seats] :
       {std::array<int, 4>{2, 2, 2, 0}, {6, 6, 2, 0}, {12, 3, 4, 2}, {16, 16, 8, 4}, {5, 5, 4, 0}})
    for (bool invariant : {true, false}) {
      const SumCase how{.invariant = invariant, .seats = invariant ? seats : 0};
      std::vector<int> squared(ranks);
      for (int rank = 0; rank < ranks; ++rank)
        for (const Instr& instr : sum_program({micro_batches, lanes, ranks, rank, LaneOrder::interleaved},
                                              RowOwners::alone(ranks), how)
                                      .program.instrs)
          if (const auto* sums = std::get_if<SumTrees>(&instr.what))
            for (const auto& tree : sums->trees) {
              EXPECT_FALSE(tree.stays()) << micro_batches << " on " << ranks;
              squared[rank] += tree.row_squares.there();
            }
      EXPECT_EQ(squared[0], 5) << "of each tensor, of which the first rank has rows";
      EXPECT_LT(squared[ranks - 1], 5) << "the last one has none of one row";
    }
}

// bf16 gradients travel as they are and give the bits of what they are as f32: rounds and contiguous lanes,
// hosts, free numerics.
TEST(BucketSum, HalvesGiveTheBitsOfWhatTheyAreAsF32) {
  for (auto [micro_batches, lanes] : {std::pair<int64_t, int64_t>{1, 1}, {6, 6}, {12, 3}, {16, 4}}) {
    const Sums one = on_one_rank(micro_batches, lanes, {.rounded = true});
    EXPECT_FALSE(one == on_one_rank(micro_batches, lanes)) << "rounding changes something";
    for (int ranks : {1, 2, 3, 4})
      for (LaneOrder order : kOrders)
        for (int seats : {0, 2}) {
          if (seats && ranks != 4) continue;
          EXPECT_TRUE(summed({micro_batches, lanes, ranks, 0, order}, RowOwners::alone(ranks),
                             {.seats = seats, .dtype = DType::bf16}) == one)
              << "M " << micro_batches << ", lanes " << lanes << ", " << ranks << " ranks, " << seats
              << " a host, " << name(order);
        }
    for (LaneOrder order : kOrders)
      EXPECT_TRUE(summed({micro_batches, lanes, 3, 0, order}, RowOwners::alone(3),
                         {.invariant = false, .dtype = DType::bf16}) ==
                  summed({micro_batches, lanes, 3, 0, order}, RowOwners::alone(3),
                         {.invariant = false, .rounded = true}));
  }
}

// numerics "free": close to the invariant sums, measured by what was added, whose rounding is all that may
// differ; their squares are of these sums, exactly. On 5 ranks with 1 micro-batch four ranks push nothing.
TEST(BucketSum, FreeSumsAreClose) {
  const SumCase how{.buckets = {{{7, 3}, {1}, {0, 4}, {2, 5000}}}, .invariant = false};
  for (int64_t micro_batches : {1, 6, 8})
    for (int ranks : {1, 2, 3, 5})
      for (LaneOrder order : kOrders) {
        const Sums want = by_definition(micro_batches, micro_batches, how);
        const std::string where =
            str(micro_batches, " micro-batches on ", ranks, " ranks, ", std::string(name(order)));
        const Sums got =
            summed({micro_batches, micro_batches, ranks, 0, order}, RowOwners::alone(ranks), how);
        for (size_t t = 0; t < got.values.size(); ++t) {
          for (size_t i = 0; i < got.values[t].size(); ++i) {
            double size = 0;
            for (int64_t m = 0; m < micro_batches; ++m)
              size += std::fabs(gradient(m, 0, t, static_cast<int64_t>(i)));
            ASSERT_LE(std::fabs(got.values[t][i] - want.values[t][i]), 1e-6 * size)
                << where << ", element " << i << " of tensor " << t;
          }
          const int64_t rows = how.buckets[0][t][0], width = rows ? numel(how.buckets[0][t]) / rows : 0;
          for (int64_t r = 0; r < rows; ++r)
            ASSERT_EQ(got.squares[t][static_cast<size_t>(r)],
                      squares_by_definition(got.values[t].data() + r * width, width))
                << where;
        }
        if (micro_batches == 1) { EXPECT_TRUE(got == want) << where << ": nothing was added"; }
      }
}

TEST(BucketSum, FreeSumsAreAddedFromLeftToRight) {
  // Another order than the lanes', so that the test above compares two things; and the same bits each time.
  const SumCase how{.buckets = {{{9, 2048}}}, .invariant = false};
  const Sums one = on_one_rank(8, 8, how);
  EXPECT_TRUE(one == by_definition(8, 1, how));
  EXPECT_FALSE(one == by_definition(8, 8, how));
  for (int ranks : {2, 3, 5})
    EXPECT_TRUE(summed({8, 8, ranks, 0}, RowOwners::alone(ranks), how) ==
                summed({8, 8, ranks, 0}, RowOwners::alone(ranks), how))
        << ranks;
}

TEST(BucketSum, EmptyBucketsAndTensorsWithoutElements) {
  for (bool invariant : {true, false}) {
    SumCase none{.buckets = {{}}, .invariant = invariant};
    EXPECT_TRUE(summed({4, 4, 3, 0}, RowOwners::alone(3), none) == by_definition(4, 4, none));
    SumCase zero{.buckets = {{{4, 0}, {0}}}, .invariant = invariant};
    EXPECT_EQ(summed({4, 4, 3, 0}, RowOwners::alone(3), zero).squares[0], std::vector<double>(4, 0.0));
  }
}

TEST(BucketSum, SquaresMayBeLeftOut) {
  SumCase how{.squares = false};
  const Sums got = on_one_rank(3, 3, how);
  EXPECT_TRUE(got.values == by_definition(3, 3).values);
}

TEST(Reductions, SquaresOfIntegersAreExact) {
  auto reductions = cpu_target().make_reductions({});
  auto row_sum = [&](const Values& row, int64_t count) {
    double out = -1;
    Values copy(static_cast<size_t>(count) + 1);
    Reductions::Sum one;
    one.sources = {row.data()}, one.merges = {0}, one.rows = 1, one.width = count;
    one.out = copy.data(), one.row_squares = &out;
    auto stream = inline_stream();
    reductions->sum({&one, 1}, *stream);
    return out;
  };
  for (int64_t n : {0, 1, 2, 15, 16, 17, 31, 33, 2047, 2048, 2049, 5000}) {
    Values row;
    double want = 0;
    for (int64_t i = 0; i < n; ++i)
      row.push_back(static_cast<float>(i - 100)), want += static_cast<double>((i - 100) * (i - 100));
    EXPECT_EQ(row_sum(row, n), want);
  }
  Values random;
  for (int64_t i = 0; i < 5003; ++i) random.push_back(gradient(1, 0, 2, i));
  for (int64_t n : {1, 15, 2048, 4097, 5003})
    EXPECT_EQ(row_sum(random, n), squares_by_definition(random.data(), n));
}

TEST(Reductions, EveryInstructionSetGivesTheSameBits) {
  const auto sets = all_lane_kernels();
  ASSERT_FALSE(sets.empty());
  Values left, right;
  for (int64_t i = 0; i < 3001; ++i)
    left.push_back(gradient(0, 0, 1, i)), right.push_back(gradient(1, 0, 1, i));
  for (const LaneKernels& kernels : sets)
    for (int64_t n : {0, 1, 7, 16, 33, 3001}) {
      Values sum(left), want(left);
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) want[i] = left[i] + right[i];
      kernels.add(sum.data(), sum.data(), right.data(), n);
      EXPECT_EQ(sum, want);
      for (int64_t at : {0, 1, 15}) {
        Values copy(3020, -1.f), wanted(copy);
        std::copy_n(left.begin(), n, wanted.begin() + at);
        kernels.copy_past(copy.data() + at, left.data(), n);
        EXPECT_EQ(copy, wanted);
      }
      EXPECT_EQ(kernels.squares(left.data(), std::min<int64_t>(n, 2048)),
                squares_by_definition(left.data(), std::min<int64_t>(n, 2048)));
    }
}

TEST(BucketSum, ALostPeerIsAPeerError) {
  distributed::LocalOptions options;
  options.deadline_s = 5;
  Sums out;
  for (const Shapes& shapes : kBuckets)
    for (const Shape& shape : shapes)
      out.values.emplace_back(static_cast<size_t>(numel(shape))),
          out.squares.emplace_back(static_cast<size_t>(shape[0]));
  expect_error<PeerError>(
      [&] {
        distributed::with_world(
            3,
            [&](std::shared_ptr<distributed::World> world) {
              if (world->rank() == 1) throw PeerError("rank 1 is gone");
              run_rank(*world, {3, 3, 3, 0}, RowOwners::alone(3), {}, out);
            },
            options);
      },
      {"rank 1"});
}

}  // namespace
}  // namespace lockstep
