// The CPU's Reductions against plain loops: any size, any number of threads, tables that do not outlive the
// call.
#include "compiler/codegen/sums/cpu_reductions.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "compiler/codegen/sums/exact_norm.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep {

using namespace compiler;

namespace {

constexpr float kPoison = -77.25f;
std::vector<float> random(size_t count, std::mt19937& rng) {
  std::vector<float> values(count);
  std::normal_distribution<float> normal;
  for (float& v : values) v = std::ldexp(normal(rng), static_cast<int>(rng() % 40) - 20);
  return values;
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
// Blocks of 2048 left to right; in a block 16 accumulators, added as a tree.
double squares_by_definition(const float* x, int64_t count) {
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += 2048) {
    double sums[16] = {};
    for (int64_t i = begin; i < std::min(begin + 2048, count); ++i)
      sums[(i - begin) % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    for (int half = 8; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
    total += sums[0];
  }
  return total;
}
// The same memory, as rounded bf16 in its first half.
void to_halves(std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  narrow(DType::bf16, values.data(), halves.data(), static_cast<int64_t>(values.size()));
  std::fill(values.begin(), values.end(), kPoison);
  if (!halves.empty()) std::memcpy(values.data(), halves.data(), halves.size() * sizeof(uint16_t));
}
float value(const Reductions::Source& source, int64_t i) {
  return static_cast<float>(get_double(source.dtype, source.at, i));
}
float tree_by_definition(const Reductions::Sum& sum, int64_t i) {
  std::vector<float> stack;
  for (size_t s = 0; s < sum.sources.size(); ++s) {
    stack.push_back(value(sum.sources[s], i));
    for (int m = 0; m < sum.merges[s]; ++m) {
      const float right = stack.back();
      stack.pop_back();
      stack.back() = stack.back() + right;
    }
  }
  return stack.at(0);
}

TEST(CpuReductions, AccumulateIsALoopFromTheGradientOutwards) {
  std::mt19937 rng(3);
  const std::vector<std::pair<int64_t, int64_t>> places{{0, 1}, {3, 5}, {8, 2047}, {2056, 40001}, {42060, 3}};
  const size_t elements = 42070;
  for (size_t lefts : {0, 1, 2, 3, 8})
    for (auto [in_place, halves] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}})
      for (int threads : {1, 2, 3, 7}) {
        if (in_place && lefts == 0) continue;
        std::vector<std::vector<float>> gradients, partials;
        std::vector<Reductions::Run> runs;
        for (auto [at, count] : places) {
          gradients.push_back(random(static_cast<size_t>(count), rng));
          const bool half =
              halves &&
              gradients.size() % 2;  // the first half of the memory is as many bf16 as there are elements
          if (half) to_halves(gradients.back());
          runs.push_back({at, gradients.back().data(), count, half ? DType::bf16 : DType::f32});
        }
        std::vector<const float*> left;
        for (size_t l = 0; l < lefts; ++l)
          partials.push_back(random(elements, rng)), left.push_back(partials.back().data());
        if (!in_place) partials.emplace_back(elements, kPoison);
        std::vector<float> want = partials.back();
        for (const auto& run : runs)
          for (int64_t i = 0; i < run.count; ++i) {
            float x = value({run.from, run.dtype}, i);
            for (const float* l : left) x = l[run.at + i] + x;
            want[static_cast<size_t>(run.at + i)] = x;
          }
        auto stream = inline_stream();
        make_cpu_reductions(threads)->accumulate(runs, left, partials.back().data(), *stream);
        EXPECT_TRUE(same_bits(partials.back(), want))
            << lefts << " lefts, in place " << in_place << ", " << threads << " threads";
      }
  auto stream = inline_stream();
  make_cpu_reductions(2)->accumulate({}, {}, nullptr, *stream);
}

// Larger than the caches, so that copies go past them: at places of any alignment, and no further.
TEST(CpuReductions, LargeGradientsComeWhole) {
  std::mt19937 rng(4);
  const std::vector<float> first = random((size_t{1} << 22) + 5, rng), second = random(4099, rng);
  for (int threads : {1, 3}) {
    const auto count = static_cast<int64_t>(first.size()), next = static_cast<int64_t>(second.size());
    std::vector<float> sum(first.size() + second.size() + 9, kPoison), want(sum);
    std::copy(first.begin(), first.end(), want.begin() + 3);
    std::copy(second.begin(), second.end(), want.begin() + 3 + count);
    auto stream = inline_stream();
    make_cpu_reductions(threads)->accumulate(
        std::vector<Reductions::Run>{{3, first.data(), count, DType::f32},
                                     {3 + count, second.data(), next, DType::f32}},
        {}, sum.data(), *stream);
    EXPECT_TRUE(same_bits(sum, want)) << threads << " threads";
  }
}

TEST(CpuReductions, SumIsTheTreeAndSquaresHaveTheirOrder) {
  std::mt19937 rng(4);
  const std::vector<std::pair<int64_t, int64_t>> shapes{{1, 1},    {5000, 1}, {0, 5},    {3, 0},    {1001, 2},
                                                        {33, 5},   {300, 64}, {9, 768},  {3, 2047}, {3, 2048},
                                                        {3, 2049}, {2, 5003}, {1, 50001}};
  for (const std::vector<int>& merges :
       std::vector<std::vector<int>>{{0}, {0, 1}, {0, 1, 1}, {0, 1, 0, 2}, {0, 0, 0, 3}, {0, 1, 0, 2, 1}})
    for (int threads : {1, 2, 3, 7}) {
      auto reductions = make_cpu_reductions(threads);
      auto stream = inline_stream();
      for (int again = 0; again < 2; ++again) {
        std::vector<std::vector<float>> keep;
        std::vector<std::vector<double>> squares;
        keep.reserve(200), squares.reserve(20);
        std::vector<Reductions::Sum> sums;
        for (auto [rows, width] : shapes) {
          Reductions::Sum sum{{}, merges, rows, width, nullptr, nullptr};
          for (size_t s = 0; s < merges.size(); ++s) {
            keep.push_back(random(static_cast<size_t>(rows * width), rng));
            const bool half = again == 1 && s % 2 == merges.size() % 2;
            if (half) to_halves(keep.back());
            sum.sources.emplace_back(keep.back().data(), half ? DType::bf16 : DType::f32);
          }
          keep.emplace_back(static_cast<size_t>(rows * width), kPoison);
          squares.emplace_back(static_cast<size_t>(rows), kPoison);
          sum.out = keep.back().data();
          if (again == 0 || width != 64) sum.row_squares = squares.back().data();
          sums.push_back(sum);
        }
        reductions->sum(sums, *stream);
        for (size_t t = 0; t < sums.size(); ++t) {
          const auto& sum = sums[t];
          const std::string what =
              str(merges.size(), " sources, ", sum.rows, " x ", sum.width, ", ", threads, " threads");
          for (int64_t i = 0; i < sum.rows * sum.width; ++i)
            ASSERT_EQ(std::bit_cast<uint32_t>(sum.out[i]),
                      std::bit_cast<uint32_t>(tree_by_definition(sum, i)))
                << what << ", element " << i;
          for (int64_t r = 0; r < sum.rows; ++r)
            ASSERT_EQ(squares[t][static_cast<size_t>(r)],
                      sum.row_squares ? squares_by_definition(sum.out + r * sum.width, sum.width) : kPoison)
                << what << ", row " << r;
        }
      }
    }
}

// The squares are the same where the sum is not wanted in memory.
TEST(CpuReductions, SquaresAlone) {
  std::mt19937 rng(6);
  auto reductions = make_cpu_reductions(3);
  auto stream = inline_stream();
  for (const std::vector<int>& merges : std::vector<std::vector<int>>{{0}, {0, 1}, {0, 0, 2}})
    for (bool half : {false, true})
      for (auto [rows, width] : {std::pair<int64_t, int64_t>{5000, 1}, {33, 5}, {300, 64}, {3, 2049}}) {
        const auto n = static_cast<size_t>(rows * width);
        std::vector<std::vector<float>> keep;
        Reductions::Sum sum{{}, merges, rows, width, nullptr, nullptr};
        for (size_t s = 0; s < merges.size(); ++s) {
          keep.push_back(random(n, rng));
          if (half) to_halves(keep.back());
          sum.sources.emplace_back(keep.back().data(), half ? DType::bf16 : DType::f32);
        }
        const auto before = keep;
        std::vector<double> alone(static_cast<size_t>(rows), kPoison), beside = alone;
        std::vector<float> out(n);
        sum.row_squares = alone.data();
        reductions->sum({&sum, 1}, *stream);
        for (size_t s = 0; s < keep.size(); ++s) EXPECT_TRUE(same_bits(keep[s], before[s]));
        sum.out = out.data(), sum.row_squares = beside.data();
        reductions->sum({&sum, 1}, *stream);
        EXPECT_EQ(alone, beside) << merges.size() << " sources, " << rows << " x " << width;
      }
}

TEST(CpuReductions, SumInPlaceAndMergesThatAreNoTree) {
  auto reductions = make_cpu_reductions(1);
  auto stream = inline_stream();
  std::vector<float> x{1, 2, 3};
  double squares = 0;
  const std::vector<Reductions::Sum> in_place{{{x.data()}, {0}, 1, 3, x.data(), &squares}};
  reductions->sum(in_place, *stream);
  EXPECT_EQ(x, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(squares, 14);
  for (const std::vector<int>& merges : std::vector<std::vector<int>>{{0, 0}, {1, 0}, {0, 2}, {0, -1}, {0}}) {
    const std::vector<Reductions::Sum> wrong{{{x.data(), x.data()}, merges, 1, 3, x.data(), nullptr}};
    EXPECT_THROW(reductions->sum(wrong, *stream), InternalError) << merges.size();
  }
}

TEST(CpuReductions, LimbsAreTheSumOnAnyThreads) {
  std::mt19937_64 rng(5);
  auto stream = inline_stream();
  for (size_t count : {0, 1, 2, 4097, 100003}) {
    std::vector<double> values(count);
    for (double& v : values)
      v = std::ldexp(static_cast<double>(rng() >> 11), static_cast<int>(rng() % 200) - 190);
    Limbs want;
    for (double v : values) want.add(v);
    want.normalise();
    for (int threads : {1, 2, 3, 7}) {
      auto reductions = make_cpu_reductions(threads);
      const auto n = static_cast<int64_t>(count);
      Limbs got;
      std::fill_n(got.words, 8, 99);
      reductions->limbs(
          std::vector<Reductions::Doubles>{
              {values.data(), n / 3}, {nullptr, 0}, {values.data() + n / 3, n - n / 3}},
          got.words, *stream);
      EXPECT_EQ(got, want) << count << " values, " << threads << " threads";
      float norm = kPoison;
      reductions->norm_of_limbs(got.words, &norm, *stream);
      EXPECT_EQ(norm, want.norm());
    }
  }
  // Also thrown on another thread of the sum.
  std::vector<double> negative(100000, 1.0);
  negative.back() = -1;
  int64_t words[8];
  for (int threads : {1, 3})
    EXPECT_THROW(make_cpu_reductions(threads)->limbs(
                     std::vector<Reductions::Doubles>{{negative.data(), 100000}}, words, *stream),
                 InternalError);
}

TEST(CpuReductions, CopiesAndIntegersOnAQueue) {
  std::mt19937 rng(6);
  for (int threads : {1, 3}) {
    auto reductions = make_cpu_reductions(threads);
    auto stream = queue_stream();
    std::vector<char> from(400000), to(400000, 1);
    for (char& c : from) c = static_cast<char>(rng());
    std::vector<char> want = to;
    {
      std::vector<Reductions::Copy> copies;  // gone before the queue has run
      size_t at = 0;
      for (size_t bytes : {size_t{1}, size_t{0}, size_t{77}, size_t{300001}, size_t{5}}) {
        copies.push_back({to.data() + at, from.data() + at / 2, bytes});
        std::copy_n(from.begin() + static_cast<int64_t>(at / 2), bytes,
                    want.begin() + static_cast<int64_t>(at));
        at += bytes + 3;
      }
      copies.push_back({from.data(), from.data(), from.size()});
      reductions->copy(copies, *stream);
    }
    std::vector<int64_t> totals{1, -2, int64_t{1} << 40}, addend{5, -7, 3};
    reductions->add(totals.data(), addend.data(), 2, *stream);
    reductions->add(totals.data(), addend.data(), 0, *stream);
    stream->synchronize();
    EXPECT_EQ(to, want);
    EXPECT_EQ(totals, (std::vector<int64_t>{6, -9, int64_t{1} << 40}));
  }
}

TEST(CpuReductions, ChecksumsAreSumsOfWords) {
  std::mt19937_64 rng(8);
  for (int threads : {1, 3}) {
    auto reductions = make_cpu_reductions(threads);
    auto stream = inline_stream();
    std::vector<std::vector<uint64_t>> kept;
    std::vector<Reductions::Bytes> parts;
    std::vector<uint64_t> want;
    for (size_t bytes : {size_t{0}, size_t{8}, size_t{3}, size_t{300001}, size_t{64}, size_t{13}}) {
      std::vector<uint64_t> words((bytes + 7) / 8);
      for (auto& word : words) word = rng();
      uint64_t sum = 0;
      for (size_t b = 0; b < bytes; ++b)
        sum += uint64_t{reinterpret_cast<const uint8_t*>(words.data())[b]} << (8 * (b % 8));
      want.push_back(sum);
      kept.push_back(std::move(words));
      parts.push_back({kept.back().data(), bytes});
    }
    std::vector<uint64_t> sums(parts.size(), 5);
    int64_t wanted = 0;
    reductions->checksums(parts, sums.data(), &wanted, *stream);
    EXPECT_EQ(sums, std::vector<uint64_t>(parts.size(), 0));
    wanted = 1;
    reductions->checksums(parts, sums.data(), &wanted, *stream);
    EXPECT_EQ(sums, want) << threads;
    kept[3][20000] ^= uint64_t{1} << 63;
    reductions->checksums(parts, sums.data(), &wanted, *stream);
    EXPECT_NE(sums[3], want[3]);
  }
}

// Rows by id: what owners of parts of a table sum is what one rank sums of it; an owner without an id has no
// row.
TEST(CpuReductions, OwnersSumTheRowsOfTheirIds) {
  std::mt19937 rng(6);
  constexpr int64_t kRows = 37, kWidth = 5, kCount = 200;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < kCount; ++i) ids.push_back(static_cast<int32_t>(rng() % 23));
  const auto rows = random(kCount * kWidth, rng);
  struct Summed {
    std::vector<int32_t> ids = std::vector<int32_t>(kCount, 99);
    std::vector<float> rows = std::vector<float>(kCount * kWidth, kPoison);
    std::vector<double> squares = std::vector<double>(kCount, 99);
  };
  auto stream = inline_stream();
  auto summed = [&](int64_t first, int64_t owned) {
    Summed out;
    make_cpu_reductions(2)->sum_rows({ids.data(), rows.data(), kCount, kWidth, kRows, first, owned,
                                      out.ids.data(), out.rows.data(), out.squares.data()},
                                     *stream);
    return out;
  };
  const Summed whole = summed(0, -1);
  int64_t at = 0;
  for (auto [first, owned] : {std::pair<int64_t, int64_t>{0, 10}, {10, 9}, {19, 0}, {19, 9}, {28, 9}}) {
    const Summed part = summed(first, owned);
    int64_t distinct = 0;
    while (part.ids[distinct] >= 0 && (distinct == 0 || part.ids[distinct] != part.ids[distinct - 1]))
      ++distinct;
    for (int64_t k = 0; k < distinct; ++k, ++at) {
      EXPECT_EQ(part.ids[k] + first, whole.ids[at]);
      EXPECT_EQ(part.squares[k], whole.squares[at]);
      EXPECT_EQ(std::memcmp(&part.rows[k * kWidth], &whole.rows[at * kWidth], kWidth * sizeof(float)), 0);
    }
    for (int64_t k = distinct; k < kCount; ++k) {
      EXPECT_EQ(part.ids[k], distinct ? part.ids[distinct - 1] : -1);
      EXPECT_EQ(part.squares[k], 0);
      EXPECT_TRUE(distinct || part.rows[k * kWidth] == 0);
    }
  }
  EXPECT_EQ(at, 23) << "each id has one owner";
}

TEST(CpuReductions, OwnersTakeAndPutRowsThatTheyHave) {
  constexpr int64_t kWidth = 3;
  std::vector<float> table{1, 2, 3, 4, 5, 6};  // rows 4 and 5 of 9
  std::vector<float> to(4 * kWidth, kPoison);
  auto stream = inline_stream();
  auto reductions = make_cpu_reductions(1);
  auto take = [&](std::vector<int32_t> ids, int64_t first, int64_t table_rows) {
    reductions->take_rows({table.data(), first, 2, kWidth, table_rows, {{ids.data(), to.data(), 4}}},
                          *stream);
  };
  take({5, 0, 8, 4}, 4, 9);
  EXPECT_TRUE(same_bits(to, {4, 5, 6, 0, 0, 0, 0, 0, 0, 1, 2, 3}));
  take({1, 1, -1, -1}, 0, 0);  // ids of sum_rows
  EXPECT_TRUE(same_bits(to, {4, 5, 6, 4, 5, 6, 0, 0, 0, 0, 0, 0}));
  for (int32_t id : {-1, 9}) {
    std::string said;
    try {
      take({5, id, 0, 0}, 4, 9);
    } catch (const UserError& error) { said = error.what(); }
    EXPECT_EQ(said, str("index ", id, " at position 1 is outside the table of 9 rows"));
  }
  const std::vector<int32_t> none(4, -1), one{1, 1, 1, 1};
  const std::vector<float> given(4 * kWidth, 7);
  Reductions::Placed placed;
  placed.table = table.data(), placed.ids = none.data(), placed.rows = given.data();
  placed.count = 4, placed.width = kWidth;
  reductions->put_rows(placed, *stream);
  EXPECT_TRUE(same_bits(table, {1, 2, 3, 4, 5, 6}));
  placed.ids = one.data();
  reductions->put_rows(placed, *stream);
  EXPECT_TRUE(same_bits(table, {1, 2, 3, 7, 7, 7}));
}

}  // namespace
}  // namespace lockstep
