// The reduction over lanes on ranks that are threads: the same bits as by definition, whatever the ranks,
// lanes, threads and rows.
#include "compiler/reduce/lane_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "compiler/codegen/sums/lane_kernels.h"
#include "core/base/error.h"
#include "distributed/local/local_world.h"
#include "tests/ranks/expect_error.h"

namespace lockstep {
namespace {

using Values = std::vector<float>;
const std::vector<Shape> kShapes{{7, 3},    {1},       {5},        {0, 4},   {3, 0},
                                 {2, 5000}, {9, 2048}, {33, 8, 5}, {1, 2049}};

// Element i of tensor t of micro-batch m: any float near 1 or far from it, so that the order of additions
// shows.
float gradient(int64_t m, size_t t, int64_t i) {
  uint64_t x = static_cast<uint64_t>(m) * 0x9e3779b97f4a7c15u + t * 0xc2b2ae3d27d4eb4fu +
               static_cast<uint64_t>(i) * 0x165667b19e3779f9u;
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 29) * 0x94d049bb133111ebu;
  const float value = static_cast<float>(static_cast<int32_t>(x >> 32)) * 0x1p-31f;
  return x % 5 ? value : value * 64;
}
std::vector<Values> gradients_of(const std::vector<Shape>& shapes, int64_t m) {
  std::vector<Values> out;
  for (size_t t = 0; t < shapes.size(); ++t) {
    out.emplace_back(static_cast<size_t>(numel(shapes[t])));
    for (size_t i = 0; i < out[t].size(); ++i) out[t][i] = gradient(m, t, static_cast<int64_t>(i));
  }
  return out;
}

struct Result {
  std::vector<Values> sums;                  // per tensor, all rows
  std::vector<std::vector<double>> squares;  // per tensor, all rows
};
bool same_bits(const Result& a, const Result& b) {
  for (size_t t = 0; t < a.sums.size(); ++t) {
    if (a.sums[t].size() != b.sums[t].size() || a.squares[t].size() != b.squares[t].size()) return false;
    if (!a.sums[t].empty() && std::memcmp(a.sums[t].data(), b.sums[t].data(), a.sums[t].size() * 4) != 0)
      return false;
    if (!a.squares[t].empty() &&
        std::memcmp(a.squares[t].data(), b.squares[t].data(), a.squares[t].size() * 8) != 0)
      return false;
  }
  return true;
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
Result by_definition(const std::vector<Shape>& shapes, int64_t micro_batches, int64_t lanes) {
  Result out;
  const int64_t per_lane = micro_batches / lanes;
  for (size_t t = 0; t < shapes.size(); ++t) {
    const int64_t elements = numel(shapes[t]), rows = shapes[t][0], width = rows ? elements / rows : 0;
    out.sums.emplace_back();
    for (int64_t i = 0; i < elements; ++i) {
      Values leaves;
      for (int64_t m = 0; m < micro_batches; ++m) {
        if (m % per_lane == 0)
          leaves.push_back(gradient(m, t, i));
        else
          leaves.back() += gradient(m, t, i);
      }
      out.sums[t].push_back(padded_tree(leaves, 0, std::bit_ceil(leaves.size())));
    }
    out.squares.emplace_back();
    for (int64_t r = 0; r < rows; ++r)
      out.squares[t].push_back(squares_by_definition(out.sums[t].data() + r * width, width));
  }
  return out;
}

// A rank is a thread, and reductions have scratch of their own.
Reductions& on_cpu(int threads) {
  thread_local std::map<int, std::unique_ptr<Reductions>> made;
  auto& mine = made[threads];
  if (!mine) mine = cpu_target().make_reductions({.threads = threads, .cache_dir = "", .tf32 = false});
  return *mine;
}

// One step of one rank; its rows are written into `result`, which all ranks share.
void step(LaneReducer& reducer, Group& group, const std::vector<Shape>& shapes, Result& result) {
  auto stream = inline_stream();
  const LanePlan& plan = reducer.plan();
  reducer.begin();
  auto [first, count] = plan.micro_batch_range(plan.rank);
  for (int64_t m = first; m < first + count; ++m) {
    auto values = gradients_of(shapes, m);
    std::vector<const void*> pointers;
    for (const auto& v : values) pointers.push_back(v.empty() ? nullptr : v.data());
    reducer.push(m, pointers, *stream);
    for (auto& v : values) std::fill(v.begin(), v.end(), NAN);  // they have been read
  }
  reducer.start(group, *stream, "exchange 0");
  reducer.wait(*stream);
  for (size_t t = shapes.size(); t-- > 0;) {
    const auto rows = reducer.owned_rows(t);
    const int64_t width = shapes[t][0] ? numel(shapes[t]) / shapes[t][0] : 0;
    Values sums(static_cast<size_t>(rows.count * width) + 1, -7.0f);
    std::vector<double> squares(static_cast<size_t>(rows.count) + 1, -7.0);
    reducer.sum(t, sums.data(), squares.data(), *stream);
    EXPECT_EQ(sums.back(), -7.0f);
    EXPECT_EQ(squares.back(), -7.0);
    std::copy(sums.begin(), sums.end() - 1, result.sums[t].begin() + rows.first * width);
    std::copy(squares.begin(), squares.end() - 1, result.squares[t].begin() + rows.first);
  }
}

Result reduced(const std::vector<Shape>& shapes, int64_t micro_batches, int64_t lanes, int ranks, int threads,
               int steps = 1, bool invariant = true) {
  Result result;
  for (const Shape& shape : shapes) {
    result.sums.emplace_back(static_cast<size_t>(numel(shape)), NAN);
    result.squares.emplace_back(static_cast<size_t>(shape[0]), NAN);
  }
  with_ranks(ranks, [&](Group& group) {
    LaneReducer reducer(shapes, {micro_batches, lanes, group.size(), group.rank()}, cpu_device(),
                        on_cpu(threads), invariant);
    for (int s = 0; s < steps; ++s) step(reducer, group, shapes, result);
  });
  return result;
}

TEST(LaneReducer, SameBitsOnAnyRanks) {
  const std::vector<Shape> shapes{{7, 3}, {1}, {5}, {0, 4}, {3, 0}, {2, 2100}};
  for (auto [micro_batches, lanes] : std::vector<std::pair<int64_t, int64_t>>{{1, 1},
                                                                              {2, 1},
                                                                              {2, 2},
                                                                              {3, 3},
                                                                              {4, 4},
                                                                              {6, 6},
                                                                              {6, 2},
                                                                              {7, 7},
                                                                              {8, 8},
                                                                              {12, 6},
                                                                              {13, 13},
                                                                              {16, 16},
                                                                              {24, 8},
                                                                              {33, 11}}) {
    const Result want = by_definition(shapes, micro_batches, lanes);
    for (int ranks : {1, 2, 3, 4, 5, 7, 8})
      EXPECT_TRUE(same_bits(reduced(shapes, micro_batches, lanes, ranks, 1), want))
          << micro_batches << " in " << lanes << " lanes on " << ranks;
  }
}

TEST(LaneReducer, SameBitsOnAnyThreads) {
  // Enough elements for a parallel region on one rank and on three.
  const std::vector<Shape> shapes{{40, 1000}, {3, 40000}, {1, 70001}, {50000}, {0}, {17, 2049}};
  const Result want = by_definition(shapes, 6, 6);
  for (int ranks : {1, 3})
    for (int threads : {1, 2, 3, 5})
      EXPECT_TRUE(same_bits(reduced(shapes, 6, 6, ranks, threads), want))
          << ranks << " ranks, " << threads << " threads";
}

TEST(LaneReducer, AllShapesAndSeveralSteps) {
  const Result want = by_definition(kShapes, 10, 5);
  for (int ranks : {1, 2, 3, 7}) EXPECT_TRUE(same_bits(reduced(kShapes, 10, 5, ranks, 2, 3), want)) << ranks;
}

TEST(LaneReducer, AnotherOrderGivesOtherBits) {
  const std::vector<Shape> shapes{{9, 100}};
  EXPECT_FALSE(same_bits(reduced(shapes, 12, 12, 2, 1), by_definition(shapes, 12, 1)));
  EXPECT_FALSE(same_bits(reduced(shapes, 12, 4, 3, 1), by_definition(shapes, 12, 12)));
}

// numerics "free": close to the invariant sums, measured by what was added, whose rounding is all that may
// differ; their squares are of these sums, exactly. On 5 ranks with 1 micro-batch four ranks push nothing.
TEST(LaneReducer, FreeSumsAreClose) {
  for (int64_t micro_batches : {1, 6, 8}) {
    const Result want = by_definition(kShapes, micro_batches, micro_batches);
    for (int ranks : {1, 2, 3, 5})
      for (int steps : {1, 3}) {
        const std::string where = str(micro_batches, " micro-batches on ", ranks, " ranks, step ", steps);
        const Result got = reduced(kShapes, micro_batches, micro_batches, ranks, 2, steps, false);
        for (size_t t = 0; t < kShapes.size(); ++t) {
          ASSERT_EQ(got.sums[t].size(), want.sums[t].size());
          for (size_t i = 0; i < got.sums[t].size(); ++i) {
            double size = 0;
            for (int64_t m = 0; m < micro_batches; ++m)
              size += std::fabs(gradient(m, t, static_cast<int64_t>(i)));
            ASSERT_LE(std::fabs(got.sums[t][i] - want.sums[t][i]), 1e-6 * size)
                << where << ", element " << i << " of tensor " << t;
          }
          const int64_t rows = kShapes[t][0], width = rows ? numel(kShapes[t]) / rows : 0;
          for (int64_t r = 0; r < rows; ++r)
            ASSERT_EQ(got.squares[t][static_cast<size_t>(r)],
                      squares_by_definition(got.sums[t].data() + r * width, width))
                << where;
        }
        if (micro_batches == 1) { EXPECT_TRUE(same_bits(got, want)) << where << ": nothing was added"; }
      }
  }
}

TEST(LaneReducer, FreeSumsAreAddedFromLeftToRight) {
  // Another order than the lanes', so that the test above compares two things; and the same bits each time.
  const std::vector<Shape> shapes{{9, 2048}};
  const Result one = reduced(shapes, 8, 8, 1, 1, 1, false);
  EXPECT_TRUE(same_bits(one, by_definition(shapes, 8, 1)));
  EXPECT_FALSE(same_bits(one, by_definition(shapes, 8, 8)));
  for (int ranks : {2, 3, 5})
    EXPECT_TRUE(
        same_bits(reduced(shapes, 8, 8, ranks, 1, 1, false), reduced(shapes, 8, 8, ranks, 3, 2, false)))
        << ranks;
}

TEST(LaneReducer, FreeBytesAreCounted) {
  const std::vector<Shape> shapes{{12, 100}};
  // One buffer whatever the lanes, and the own quarter of the sum; three quarters of the bucket go out, also
  // from an idle rank.
  EXPECT_EQ((LaneReducer(shapes, {16, 16, 1, 0}, cpu_device(), on_cpu(1), false).bytes()), 4800);
  EXPECT_EQ((LaneReducer(shapes, {16, 16, 4, 1}, cpu_device(), on_cpu(1), false).bytes()), 4800 + 1200);
  EXPECT_EQ((LaneReducer(shapes, {2, 2, 4, 3}, cpu_device(), on_cpu(1), false).bytes()), 4800 + 1200);
  EXPECT_EQ((LaneReducer(shapes, {16, 16, 4, 1}, cpu_device(), on_cpu(1), false).sent_bytes()), 3600);
  EXPECT_EQ((LaneReducer(shapes, {2, 2, 4, 3}, cpu_device(), on_cpu(1), false).sent_bytes()), 3600);
  EXPECT_EQ((LaneReducer(shapes, {16, 16, 1, 0}, cpu_device(), on_cpu(1), false).sent_bytes()), 0);
}

TEST(LaneReducer, EmptyBucketAndTensorsWithoutElements) {
  EXPECT_TRUE(same_bits(reduced({}, 4, 4, 3, 2), by_definition({}, 4, 4)));
  EXPECT_TRUE(same_bits(reduced({}, 4, 4, 3, 2, 1, false), by_definition({}, 4, 4)));
  for (bool invariant : {true, false}) {
    const Result zero = reduced({{4, 0}, {0}}, 4, 4, 3, 2, 1, invariant);
    EXPECT_EQ(zero.squares[0], std::vector<double>(4, 0.0));
  }
}

double row_sum_of_squares(const float* row, int64_t count) {
  double out = -1;
  Values copy(static_cast<size_t>(count) + 1);
  Reductions::Sum one;
  one.sources = {row};
  one.merges = {0};
  one.rows = 1;
  one.width = count;
  one.out = copy.data();
  one.row_squares = &out;
  auto stream = inline_stream();
  on_cpu(1).sum({&one, 1}, *stream);
  return out;
}

TEST(LaneReducer, SquaresOfIntegersAreExact) {
  for (int64_t n : {0, 1, 2, 15, 16, 17, 31, 33, 2047, 2048, 2049, 5000}) {
    Values row;
    double want = 0;
    for (int64_t i = 0; i < n; ++i)
      row.push_back(static_cast<float>(i - 100)), want += static_cast<double>((i - 100) * (i - 100));
    EXPECT_EQ(row_sum_of_squares(row.data(), n), want);
  }
  Values random;
  for (int64_t i = 0; i < 5003; ++i) random.push_back(gradient(1, 2, i));
  for (int64_t n : {1, 15, 2048, 4097, 5003})
    EXPECT_EQ(row_sum_of_squares(random.data(), n), squares_by_definition(random.data(), n));
}

TEST(LaneReducer, EveryInstructionSetGivesTheSameBits) {
  const auto sets = all_lane_kernels();
  ASSERT_FALSE(sets.empty());
  Values left, right;
  for (int64_t i = 0; i < 3001; ++i) left.push_back(gradient(0, 1, i)), right.push_back(gradient(1, 1, i));
  for (const LaneKernels& kernels : sets)
    for (int64_t n : {0, 1, 7, 16, 33, 3001}) {
      Values sum(left), want(left);
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) want[i] = left[i] + right[i];
      kernels.add(sum.data(), sum.data(), right.data(), n);
      EXPECT_EQ(sum, want);
      EXPECT_EQ(kernels.squares(left.data(), std::min<int64_t>(n, 2048)),
                squares_by_definition(left.data(), std::min<int64_t>(n, 2048)));
    }
}

TEST(LaneReducer, SquaresMayBeLeftOut) {
  LaneReducer reducer({{2, 3000}}, {1, 1, 1, 0}, cpu_device(), on_cpu(1));
  auto stream = inline_stream();
  Values g(6000, 2.0f), sums(6000);
  reducer.begin();
  reducer.push(0, {g.data()}, *stream);
  reducer.start(*solo_group(), *stream, "exchange 0");
  reducer.wait(*stream);
  reducer.sum(0, sums.data(), nullptr, *stream);
  EXPECT_EQ(sums, g);
}

TEST(LaneReducer, BytesAreCounted) {
  const std::vector<Shape> shapes{{12, 100}};
  const int64_t temporaries = LaneReducer(shapes, {1, 1, 1, 0}, cpu_device(), on_cpu(1)).bytes() - 4800;
  // log2(lanes) + 1 partials where a lane is folded in place, one fewer where a gradient is a lane and merges
  // straight.
  EXPECT_EQ((LaneReducer(shapes, {16, 16, 1, 0}, cpu_device(), on_cpu(1)).bytes()), 4 * 4800 + temporaries);
  EXPECT_EQ((LaneReducer(shapes, {32, 16, 1, 0}, cpu_device(), on_cpu(1)).bytes()), 5 * 4800 + temporaries);
  // Four ranks with one subtree each: a quarter from each of three others comes in, three quarters go out.
  EXPECT_EQ((LaneReducer(shapes, {4, 4, 4, 1}, cpu_device(), on_cpu(1)).bytes()),
            4800 + 3600 + temporaries * 3);
  EXPECT_EQ((LaneReducer(shapes, {4, 4, 4, 1}, cpu_device(), on_cpu(1)).sent_bytes()), 3600);
  EXPECT_EQ((LaneReducer(shapes, {4, 4, 1, 0}, cpu_device(), on_cpu(1)).sent_bytes()), 0);
  EXPECT_EQ((LaneReducer(shapes, {2, 2, 4, 3}, cpu_device(), on_cpu(1)).sent_bytes()), 0);
}

TEST(LaneReducer, CallsOutOfOrderAreOurDefect) {
  EXPECT_THROW(LaneReducer({Shape{}}, {1, 1, 1, 0}, cpu_device(), on_cpu(1)), InternalError);
  expect_error<UserError>([] { LaneReducer({{2}}, {4, 3, 1, 0}, cpu_device(), on_cpu(1)); },
                          {"batch.lanes is 3", "4 micro-batches", "2 or 4"});
  LaneReducer reducer({{2}}, {4, 2, 1, 0}, cpu_device(), on_cpu(1));
  auto stream = inline_stream();
  auto group = solo_group();
  const Values g{1, 2};
  Values out(2);
  expect_error<InternalError>([&] { reducer.push(0, {g.data()}, *stream); }, {"outside a step"});
  reducer.begin();
  expect_error<InternalError>([&] { reducer.push(1, {g.data()}, *stream); },
                              {"micro-batch 1 was pushed where 0"});
  expect_error<InternalError>([&] { reducer.push(0, {}, *stream); }, {"0 gradients for 1 tensors"});
  reducer.push(0, {g.data()}, *stream);
  expect_error<InternalError>([&] { reducer.start(*group, *stream, "x"); }, {"micro-batch 1"});
  for (int64_t m = 1; m < 4; ++m) reducer.push(m, {g.data()}, *stream);
  expect_error<InternalError>([&] { reducer.push(4, {g.data()}, *stream); }, {"micro-batch 4"});
  expect_error<InternalError>([&] { reducer.sum(0, out.data(), nullptr, *stream); }, {"before its exchange"});
  reducer.start(*group, *stream, "x");
  expect_error<InternalError>([&] { reducer.begin(); }, {"was not waited for"});
  reducer.wait(*stream);
  expect_error<InternalError>([&] { reducer.wait(*stream); }, {"no exchange"});
  reducer.sum(0, out.data(), nullptr, *stream);
  EXPECT_EQ(out, (Values{4, 8}));
}

// A device whose kernels add few partials at once.
class Few : public Reductions {
 public:
  Few(size_t sources, size_t lefts) : sources_(sources), lefts_(lefts) {}
  void accumulate(std::span<const Run>, std::span<const float* const>, float*, Stream&) override {}
  void sum(std::span<const Sum>, Stream&) override {}
  size_t most_sources() const override { return sources_; }
  size_t most_lefts() const override { return lefts_; }
  void limbs(std::span<const Doubles>, int64_t*, Stream&) override {}
  void norm_of_limbs(const int64_t*, float*, Stream&) override {}
  void copy(std::span<const Copy>, Stream&) override {}
  void checksums(std::span<const Bytes>, uint64_t*, const int64_t*, Stream&) override {}
  void add(int64_t*, const int64_t*, int64_t, Stream&) override {}

 private:
  size_t sources_, lefts_;
};

TEST(LaneReducer, MorePartialsThanTheDeviceAddsAreRefused) {
  Few few(129, 3);
  auto make = [&](LanePlan plan, bool invariant = true) {
    LaneReducer({{2}}, plan, cpu_device(), few, invariant);
  };
  // A rank with one lane sends one partial.
  make({129, 129, 129, 7});
  make({130, 130, 130, 7}, false);
  for (int rank : {0, 129})
    expect_error<UserError>([&] { make({130, 130, 130, rank}); },
                            {"batch.lanes 130 on 130 data ranks leaves 130 partial sums of a gradient for "
                             "one rank to add, and CPU adds at most "
                             "129; set batch.lanes to at most 129 (a divisor of the 130 micro-batches), use "
                             "fewer ranks, or set train.numerics "
                             "to \"free\""});
  // 8 lanes end in 3 merges; where a lane has several micro-batches its own sum is a fourth.
  make({8, 8, 1, 0});
  make({16, 4, 1, 0});
  expect_error<UserError>(
      [&] { make({16, 16, 1, 0}); },
      {"batch.lanes 16 on 1 data ranks adds 4 partial sums to one gradient at once, and CPU adds at most 3; "
       "set batch.lanes to "
       "a smaller divisor of the 16 micro-batches, use more ranks, or set train.numerics to \"free\""});
  expect_error<UserError>([&] { make({16, 8, 1, 0}); },
                          {"batch.lanes 8 on 1 data ranks adds 4 partial sums"});
}

TEST(LaneReducer, ALostPeerIsAPeerError) {
  LocalOptions options;
  options.deadline_s = 5;
  expect_error<PeerError>(
      [&] {
        with_ranks(
            3,
            [&](Group& group) {
              if (group.rank() == 1) throw PeerError("rank 1 is gone");
              Result result{{Values(20)}, {std::vector<double>(10)}};
              LaneReducer reducer({{10, 2}}, {3, 3, 3, group.rank()}, cpu_device(), on_cpu(1));
              step(reducer, group, {{10, 2}}, result);
            },
            options);
      },
      {"rank 1"});
}

}  // namespace
}  // namespace lockstep
