// The exact sum of doubles: against wide integers, in any order, at the ends of the window.
#include "compiler/codegen/sums/exact_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "core/base/error.h"

namespace lockstep {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

compiler::Limbs sum_of(const std::vector<double>& values) {
  compiler::Limbs sum;
  sum.add(values);
  sum.normalise();
  return sum;
}
// As all_reduce adds the words of ranks.
compiler::Limbs words_added(const std::vector<compiler::Limbs>& ranks) {
  compiler::Limbs sum;
  for (const compiler::Limbs& rank : ranks)
    for (int i = 0; i < 8; ++i) sum.words[i] += rank.words[i];
  return sum;
}

TEST(ExactNorm, ClosedForms) {
  EXPECT_EQ(compiler::Limbs{}.total(), 0);
  EXPECT_EQ(sum_of({0.0, -0.0}).total(), 0);
  EXPECT_EQ(sum_of({9, 16}).norm(), 5.0f);
  EXPECT_EQ(sum_of({1, 0x1p-52}).total(), 1 + 0x1p-52);
  EXPECT_EQ(sum_of({2}).norm(), static_cast<float>(std::sqrt(2.0)));
  // A double sum in this order would lose every small term.
  std::vector<double> values(1 << 12, 0x1p-60);
  values.insert(values.begin(), 0x1p40);
  EXPECT_EQ(sum_of(values).total(), 0x1p40 + 0x1p-48 * 1);
  EXPECT_NE(sum_of(values), sum_of({0x1p40}));
}

TEST(ExactNorm, RoundsOnceToNearestEven) {
  EXPECT_EQ(sum_of({1, 0x1p-53}).total(), 1);                      // a tie, to even
  EXPECT_EQ(sum_of({1 + 0x1p-52, 0x1p-53}).total(), 1 + 0x1p-51);  // a tie, to even
  EXPECT_EQ(sum_of({1, 0x1p-53, 0x1p-150}).total(), 1 + 0x1p-52);  // just above a tie, by the least bit
  EXPECT_EQ(sum_of({0x1p129, 0x1p76, 0x1p-150}).total(), 0x1p129 + 0x1p77);
  EXPECT_EQ(sum_of({0x1p129, 0x1p76}).total(), 0x1p129);
}

TEST(ExactNorm, EqualsWideIntegers) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    unsigned __int128 want = 0;
    std::vector<double> values;
    for (int i = 0; i < 300; ++i) {
      const int shift = static_cast<int>(random() % 60);
      const uint64_t mantissa = random() >> (11 + random() % 50);
      want += static_cast<unsigned __int128>(mantissa) << shift;
      values.push_back(std::ldexp(static_cast<double>(mantissa), shift - 80));
    }
    EXPECT_EQ(sum_of(values).total(), std::ldexp(static_cast<double>(want), -80));
  }
}

TEST(ExactNorm, NoOrderAndNoCutChangesAWord) {
  std::mt19937 random(5);
  std::vector<double> values;
  for (int i = 0; i < 3000; ++i)
    values.push_back(
        std::ldexp(std::generate_canonical<double, 53>(random), static_cast<int>(random() % 250) - 140));
  const compiler::Limbs want = sum_of(values);
  const double plain = std::accumulate(values.begin(), values.end(), 0.0);
  bool plain_differs = false;
  for (int ranks : {1, 2, 3, 4, 7, 64}) {
    std::shuffle(values.begin(), values.end(), random);
    plain_differs |= std::accumulate(values.begin(), values.end(), 0.0) != plain;
    EXPECT_EQ(sum_of(values), want);
    std::vector<compiler::Limbs> parts(static_cast<size_t>(ranks));
    for (size_t i = 0; i < values.size(); ++i) parts[i * i % parts.size()].add(values[i]);
    compiler::Limbs merged;
    for (const compiler::Limbs& part : parts) merged.add(part);
    merged.normalise();
    EXPECT_EQ(merged, want);
    for (compiler::Limbs& part : parts) part.normalise();
    compiler::Limbs reduced = words_added(parts);
    EXPECT_EQ(reduced.total(), want.total());
    reduced.normalise();
    EXPECT_EQ(reduced, want);
  }
  EXPECT_TRUE(plain_differs);
}

TEST(ExactNorm, WordsOfAMillionRanksAdd) {
  compiler::Limbs rank;
  rank.add(0x1p109);
  rank.add(0x1p109 - 0x1p56);
  rank.add(std::vector<double>(1000, 0x1.fffffffffffffp-20));
  rank.normalise();
  compiler::Limbs sum;
  for (int i = 0; i < 8; ++i) sum.words[i] = rank.words[i] << 20;  // 2^20 equal ranks
  EXPECT_EQ(sum.total(), std::ldexp(rank.total(), 20));
  EXPECT_LT(sum.total(), kInf);
}

TEST(ExactNorm, BelowTheWindowIsCutOffPerValue) {
  EXPECT_EQ(sum_of({0x1p-150}).total(), 0x1p-150);
  EXPECT_EQ(sum_of({0x1p-151, 0x1p-151}).total(), 0);
  EXPECT_EQ(sum_of({0x1.8p-150}).total(), 0x1p-150);
  EXPECT_EQ(sum_of({0x1.fffffffffffffp-99}).total(), 0x1.ffffffffffffep-99);
  EXPECT_EQ(sum_of({0x1p-298, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::min()}),
            compiler::Limbs{});
}

TEST(ExactNorm, AboveTheWindowIsInf) {
  EXPECT_EQ(sum_of({0x1.fffffffffffffp129}).total(), 0x1.fffffffffffffp129);
  EXPECT_EQ(sum_of({0x1p130}).total(), kInf);
  EXPECT_EQ(sum_of({0x1p129, 0x1p129}).total(), kInf);  // the total leaves the window
  EXPECT_EQ(sum_of({0x1p129, 1, 0x1p129}), sum_of({1, 0x1p129, 0x1p129}));
  EXPECT_EQ(sum_of(std::vector<double>(10000, 0x1p129)).norm(), std::numeric_limits<float>::infinity());
  // On two ranks that are both inside.
  compiler::Limbs both = words_added({sum_of({0x1p129}), sum_of({0x1p129, 3})});
  EXPECT_EQ(both.total(), kInf);
  EXPECT_EQ(sum_of({0x1p256, 0x1p1023}).total(), kInf);
}

TEST(ExactNorm, InfAndNan) {
  EXPECT_EQ(sum_of({1, kInf, 2}).total(), kInf);
  EXPECT_TRUE(std::isnan(sum_of({1, kNan, kInf}).total()));
  EXPECT_TRUE(std::isnan(sum_of({kInf, kNan, 0x1p1000}).norm()));
  EXPECT_EQ(sum_of({1, kNan, kInf}), sum_of({kInf, 5, -kNan}));
  std::vector<compiler::Limbs> ranks(1000, sum_of({kInf}));
  EXPECT_EQ(words_added(ranks).total(), kInf);
  ranks.push_back(sum_of({kNan}));
  EXPECT_TRUE(std::isnan(words_added(ranks).total()));
  compiler::Limbs later = sum_of({kInf});
  later.add(3);
  EXPECT_EQ(later.norm(), std::numeric_limits<float>::infinity());
}

TEST(ExactNorm, ManyAddsCarryInTime) {
  // Every add puts a full digit into the lowest words: without a carry on the way, a word would run over.
  const int64_t count = (int64_t{1} << 23) + 5;
  const double value = std::ldexp(static_cast<double>((int64_t{1} << 53) - 1), -150);
  compiler::Limbs sum;
  for (int64_t i = 0; i < count; ++i) sum.add(value);
  unsigned __int128 want =
      static_cast<unsigned __int128>((int64_t{1} << 53) - 1) * static_cast<unsigned __int128>(count);
  EXPECT_EQ(sum.total(), std::ldexp(static_cast<double>(want), -150));
}

TEST(ExactNorm, ANegativeSumOfSquaresIsOurDefect) {
  EXPECT_THROW(compiler::Limbs{}.add(-1.0), InternalError);
}

}  // namespace
}  // namespace lockstep
