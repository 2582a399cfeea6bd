// How often random functions give what: frequencies and means of many samples, within four deviations.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "compiler/reference/evaluate.h"
#include "core/ops/functions.h"

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
