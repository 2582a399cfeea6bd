// How often random functions give what: frequencies and means of many samples, within four deviations.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "compiler/reference/evaluate.h"
#include "core/functions/functions.h"

namespace lockstep {
namespace {

using compiler::HostTensor;
constexpr int64_t kSamples = 20000;

// The function of an input of these rows, all alike.
HostTensor drawn(const std::vector<double>& row, const std::function<Tensor(Tensor)>& function) {
  auto builder = std::make_shared<Builder>();
  const Shape shape{kSamples, static_cast<int64_t>(row.size())};
  Tensor x(builder, builder->graph.add_input(InputKind::value, "x", DType::f32, shape));
  builder->graph.add_output(OutputKind::value, "y", function(x).id());
  std::vector<HostTensor> inputs;
  for (const auto& input : builder->graph.inputs) {
    const Value& value = builder->graph[input.value];
    inputs.push_back(compiler::make_tensor(value.dtype, value.shape));
    if (input.name == "x")
      for (int64_t i = 0; i < inputs.back().size(); ++i)
        inputs.back().set(i, row[static_cast<size_t>(i) % row.size()]);
    else
      inputs.back().set_int_at(0, 7);
  }
  return compiler::evaluate(builder->graph, inputs)[0];
}
// How often each of `count` numbers stands there, as a share.
std::vector<double> shares(const HostTensor& y, size_t count) {
  std::vector<double> out(count);
  for (int64_t i = 0; i < y.size(); ++i)
    out.at(static_cast<size_t>(y.at(i))) += 1 / static_cast<double>(y.size());
  return out;
}
void expect_shares(const std::vector<double>& given, const std::vector<double>& right, int64_t draws) {
  for (size_t i = 0; i < right.size(); ++i)
    EXPECT_NEAR(given[i], right[i], 4 * std::sqrt(right[i] * (1 - right[i]) / static_cast<double>(draws)))
        << i;
}
const std::vector<double> kWeights{1, 0, 3, 4}, kChances{0.125, 0, 0.375, 0.5};

TEST(RandomFunctions, PlacesComeByTheirWeights) {
  const HostTensor one = drawn(kWeights, [](Tensor p) { return multinomial(p, 1); });
  EXPECT_EQ(one.shape, (Shape{kSamples, 1}));
  EXPECT_EQ(one.dtype, DType::i32);
  expect_shares(shares(one, 4), kChances, kSamples);
  const HostTensor again = drawn(kWeights, [](Tensor p) { return multinomial(p, 5, true); });
  EXPECT_EQ(again.shape, (Shape{kSamples, 5}));
  expect_shares(shares(again, 4), kChances, 5 * kSamples);
}

// The second place by what the first one left: 0 comes first or second by 1/8 + 3/8 1/5 + 1/2 1/4.
TEST(RandomFunctions, APlaceComesOnce) {
  const HostTensor two = drawn(kWeights, [](Tensor p) { return multinomial(p, 2); });
  double with_0 = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const std::set<double> places{two.at(2 * i), two.at(2 * i + 1)};
    EXPECT_EQ(places.size(), 2u) << i;
    EXPECT_FALSE(places.count(1)) << i;
    with_0 += static_cast<double>(places.count(0));
  }
  const double right = 0.125 + 0.375 / 5 + 0.5 / 4;
  EXPECT_NEAR(with_0 / kSamples, right, 4 * std::sqrt(right * (1 - right) / kSamples));
}

struct Moments {
  double least = 1e300, most = -1e300, mean = 0;
};
Moments moments(const HostTensor& y) {
  Moments out;
  for (int64_t i = 0; i < y.size(); ++i) {
    out.least = std::min(out.least, y.at(i)), out.most = std::max(out.most, y.at(i));
    out.mean += y.at(i) / static_cast<double>(y.size());
  }
  return out;
}

// The mean of a normal one between a and b is (phi(a) - phi(b)) / (Q(a) - Q(b)): these are its values.
TEST(RandomFunctions, NormalNumbersInTheTails) {
  struct Case {
    double mean, deviation, lo, hi, right, spread;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Case& c : {Case{0, 1, -9, -8, -8.121189, 0.12}, Case{0, 1, 5, 6, 5.183147, 0.17},
                        Case{0, 1, 8, infinity, 8.121223, 0.12}, Case{0, 1, 0, infinity, 0.797885, 0.61},
                        Case{0, 1, 0.5, 20, 1.141078, 0.52}, Case{1, 2, 61, 81, 61.066519, 0.07},
                        Case{0, 1, -infinity, -40, -40.024969, 0.03}, Case{0, 1, -2, 2, 0, 0.88},
                        Case{0, 1, -10, 10, 0, 1}, Case{0, 1, 8, 8.0001, 8.00005, 3e-5}}) {
    SCOPED_TRACE(str(c.lo, " ", c.hi));
    const Moments m = moments(drawn({0, 0, 0, 0}, [&](Tensor x) {
      return truncated_normal(x, x.shape(), c.mean, c.deviation, c.lo, c.hi);
    }));
    EXPECT_NEAR(m.mean, c.right, 4 * c.spread / std::sqrt(4.0 * kSamples) + 1e-6 * std::fabs(c.right));
    EXPECT_GE(m.least, static_cast<float>(c.lo));
    EXPECT_LE(m.most, static_cast<float>(c.hi));
    if (c.hi - c.lo > 15) { EXPECT_LT(m.most - m.least, 12) << "no number falls onto a bound far away"; }
  }
}

TEST(RandomFunctions, UniformNumbersStayBelowTheirBound) {
  for (const auto& [lo, hi, dtype, most] :
       {std::tuple(1e8, 1e8 + 8, DType::f32, 1e8), std::tuple(0.0, 1.0, DType::bf16, 0.99609375),
        std::tuple(0.0, 1.0, DType::f16, 0.99951171875), std::tuple(-2.0, -1.0, DType::bf16, -1.0078125),
        std::tuple(-1.0, 0.0, DType::f16, -0x1p-24), std::tuple(1e8, 1e8 + 16, DType::f64, 1e8 + 8)}) {
    const Moments m = moments(drawn({0, 0, 0, 0}, [&, lo = lo, hi = hi, dtype = dtype](Tensor x) {
      return uniform(x, x.shape(), lo, hi, dtype);
    }));
    EXPECT_GE(m.least, lo);
    EXPECT_LE(m.most, most);
  }
}

TEST(RandomFunctions, WholeNumbersAreExactUpToTheEnds) {
  const int64_t two53 = int64_t{1} << 53, last = std::numeric_limits<int64_t>::max();
  for (int64_t lo : {two53 + 1, last - 2, std::numeric_limits<int64_t>::min(), int64_t{-1}}) {
    std::set<int64_t> seen;
    const HostTensor y = drawn({0}, [&](Tensor x) { return randint(x, x.shape(), lo, lo + 2, DType::i64); });
    for (int64_t i = 0; i < y.size(); ++i) seen.insert(y.int_at(i));
    EXPECT_EQ(seen, (std::set<int64_t>{lo, lo + 1}));
  }
  const Moments all = moments(drawn(
      {0, 0, 0, 0}, [](Tensor x) { return randint(x, x.shape(), -(int64_t{1} << 31), int64_t{1} << 31); }));
  EXPECT_LT(all.least, -2.1e9);
  EXPECT_GT(all.most, 2.1e9);
}

// What bernoulli and multinomial say of probabilities that are none.
TEST(RandomFunctions, ProbabilitiesThatAreNone) {
  const HostTensor coins = drawn({-0.5, 1.5, std::nan(""), 0, 1}, [](Tensor p) { return bernoulli(p); });
  for (int64_t i = 0; i < coins.size(); ++i) ASSERT_EQ(coins.at(i), i % 5 == 1 || i % 5 == 4) << i;
  const HostTensor zeros = drawn({0, 0, 0}, [](Tensor p) { return multinomial(p, 2); });
  for (int64_t i = 0; i < zeros.size(); ++i) ASSERT_EQ(zeros.at(i), i % 2) << i;
  const HostTensor again = drawn({0, 0, 0}, [](Tensor p) { return multinomial(p, 2, true); });
  for (int64_t i = 0; i < again.size(); ++i) ASSERT_EQ(again.at(i), 0) << i;
  const std::vector<double> spoilt{1, -2, 3, 4, std::nan("")};
  expect_shares(shares(drawn(spoilt, [](Tensor p) { return multinomial(p, 1); }), 5),
                {0.125, 0, 0.375, 0.5, 0}, kSamples);
  const HostTensor all = drawn(spoilt, [](Tensor p) { return multinomial(p, 5); });
  for (int64_t i = 0; i < kSamples; ++i)
    ASSERT_EQ(std::pair(all.at(5 * i + 3), all.at(5 * i + 4)), std::pair(1.0, 4.0)) << i;
}

TEST(RandomFunctions, SlopesOfRreluAreUniform) {
  const HostTensor y = drawn({-2, 3, 0}, [](Tensor x) { return rrelu(x, 0.1, 0.4); });
  double sum = 0, least = 1, most = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const double slope = y.at(3 * i) / -2;
    sum += slope, least = std::min(least, slope), most = std::max(most, slope);
    EXPECT_EQ(y.at(3 * i + 1), 3);
    EXPECT_EQ(y.at(3 * i + 2), 0);
  }
  EXPECT_NEAR(sum / kSamples, 0.25, 4 * 0.3 / std::sqrt(12.0 * kSamples));
  EXPECT_GE(least, 0.1f);
  EXPECT_LT(least, 0.101);
  EXPECT_LT(most, 0.4f);
  EXPECT_GT(most, 0.399);
}

}  // namespace
}  // namespace lockstep
