// Mixtures: shares, evenness, and samples that follow from their number alone.
#include "launcher/data/kinds/mixture.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/text.h"
#include "launcher/data/kinds/open_samples.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

TEST(Mixture, GivesEachSourceItsShareOfEveryPeriod) {
  const Mixture mixture({1, 2, 5});
  EXPECT_EQ(mixture.share(0) + mixture.share(1) + mixture.share(2), Mixture::kPeriod);
  for (int64_t period = 0; period < 2; ++period) {
    std::vector<int64_t> next = {period * mixture.share(0), period * mixture.share(1),
                                 period * mixture.share(2)};
    for (int64_t g = period * Mixture::kPeriod; g < (period + 1) * Mixture::kPeriod; ++g) {
      const auto place = mixture.at(g);
      ASSERT_EQ(place.index, next[static_cast<size_t>(place.source)]++) << g;  // none twice, none left out
    }
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(next[k], (period + 1) * mixture.share(k));
  }
  EXPECT_EQ(mixture.share(2), Mixture::kPeriod * 5 / 8);
}

TEST(Mixture, SpreadsEachSourceEvenly) {
  const Mixture mixture({0.5, 0.3, 0.2});
  double counts[3] = {};
  const double shares[3] = {0.5, 0.3, 0.2};
  for (int64_t g = 0; g < 20000; ++g) {
    ++counts[mixture.at(g).source];
    for (int k = 0; k < 3; ++k)
      ASSERT_LE(std::abs(counts[k] - shares[k] * static_cast<double>(g + 1)), 2) << g;
  }
}

TEST(Mixture, OfOneSourceIsThatSource) {
  const Mixture mixture({3});
  for (int64_t g : {int64_t{0}, int64_t{5}, Mixture::kPeriod, 3 * Mixture::kPeriod + 7}) {
    EXPECT_EQ(mixture.at(g).source, 0);
    EXPECT_EQ(mixture.at(g).index, g);
  }
}

class Mixed : public testing::Test {
 protected:
  // Source k has records of the letter 'a' + k, under a member of its own.
  DataOptions options(const std::vector<double>& weights, double validation = 0) {
    DataOptions out{.kind = "jsonl", .validation = validation, .context = 4, .seed = 9};
    out.pack = "none";
    for (size_t k = 0; k < weights.size(); ++k) {
      std::string lines;
      for (int i = 0; i < 40; ++i)
        lines +=
            str("{\"t", k, "\": \"", static_cast<char>('a' + k), static_cast<char>('A' + i % 26), "\"}\n");
      out.sources.push_back({.paths = {folder_.write(str("s", k, ".jsonl"), lines)}, .weight = weights[k]});
      out.sources.back().text_key = str("t", k);
    }
    return out;
  }
  static const std::vector<SampleField>& fields() {
    static const std::vector<SampleField> all = {{"ids", DType::i32, {4}}, {"targets", DType::i32, {4}}};
    return all;
  }
  static std::vector<int32_t> fill(const Samples& samples, int64_t step, int64_t global, int64_t first,
                                   int64_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count * 4)), targets(ids.size());
    samples.fill(step, global, first, count, {ids.data(), targets.data()});
    ids.insert(ids.end(), targets.begin(), targets.end());
    return ids;
  }
  ScratchFolder folder_;
};

TEST_F(Mixed, SamplesAreThoseOfTheSourcesByTheirShares) {
  const auto samples = open_samples(options({3, 1}), fields());
  int64_t of_a = 0;
  for (int64_t step = 0; step < 100; ++step) of_a += fill(*samples, step, 1, 0, 1)[0] == 'a';
  EXPECT_EQ(of_a, 75);
  EXPECT_EQ(samples->contents().size(), 2u);
  EXPECT_EQ(samples->contents()[1].name, "1/s1.jsonl");
}

TEST_F(Mixed, FollowFromTheirNumberAloneOnAnyNumberOfRanks) {
  const auto samples = open_samples(options({0.7, 0.2, 0.1}), fields()),
             again = open_samples(options({0.7, 0.2, 0.1}), fields());
  for (int64_t step : {0, 1, 40}) {
    std::vector<int32_t> ids;
    const auto whole = fill(*samples, step, 12, 0, 12);
    for (int64_t ranks : {2, 3, 4}) {
      std::vector<int32_t> parts;
      for (int64_t r = 0; r < ranks; ++r) {
        const auto part = fill(*again, step, 12, r * 12 / ranks, 12 / ranks);
        parts.insert(parts.end(), part.begin(), part.begin() + 4 * 12 / ranks);
      }
      EXPECT_EQ(parts, std::vector<int32_t>(whole.begin(), whole.begin() + 48));
    }
  }
}

TEST_F(Mixed, ValidationMixesUntilOneSourceEnds) {
  const auto samples = open_samples(options({1, 1}, 0.25), fields());
  EXPECT_EQ(samples->validation(), 20);
  int of_a = 0;
  for (int64_t i = 0; i < 20; ++i) {
    std::vector<int32_t> ids(4), targets(4);
    samples->fill_validation(i, 1, {ids.data(), targets.data()});
    of_a += ids[0] == 'a';
  }
  EXPECT_EQ(of_a, 10);
  EXPECT_EQ(open_samples(options({1, 1}), fields())->validation(), 0);
}

TEST_F(Mixed, WeightsArePartOfTheFingerprint) {
  const auto print = [&](const std::vector<double>& weights) {
    return open_samples(options(weights), fields())->fingerprint();
  };
  EXPECT_EQ(print({1, 2}), print({2, 4}));
  EXPECT_NE(print({1, 2}), print({1, 3}));
}

}  // namespace
}  // namespace lockstep::launcher::data
