// Rounding at random: which numbers come out, how often, and that the draw is of the element alone.
#include "core/optim/rounded_moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "compiler/lower/simplify.h"
#include "compiler/reference/evaluate.h"
#include "core/optim/adamw.h"
#include "tests/support/nn_fixture.h"

namespace lockstep {
namespace {

using namespace compiler;

std::vector<float> rounded(const std::vector<float>& x, const std::vector<float>& beside, double salt) {
  auto builder = std::make_shared<Builder>();
  builder->graph.mesh = Mesh{{}, {}};
  const Shape shape{static_cast<int64_t>(x.size())};
  auto input = [&](const char* name, const Shape& of) {
    return Tensor(builder, builder->graph.add_input(InputKind::value, name, DType::f32, of));
  };
  const Tensor a = input("x", shape), b = input("beside", shape), s = input("salt", {});
  builder->graph.add_output(OutputKind::value, "y", round_at_random(a, b, s).id());
  HostTensor left = make_tensor(DType::f32, shape), right = make_tensor(DType::f32, shape);
  std::copy(x.begin(), x.end(), left.data.as<float>());
  std::copy(beside.begin(), beside.end(), right.data.as<float>());
  const HostTensor out = evaluate(builder->graph, {left, right, from_values(DType::f32, {}, {salt})})[0];
  EXPECT_EQ(out.dtype, DType::bf16);
  std::vector<float> y;
  for (int64_t i = 0; i < out.size(); ++i) y.push_back(static_cast<float>(out.at(i)));
  return y;
}
std::vector<float> many(size_t count, double first) {  // numbers that differ
  std::vector<float> out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<float>(first * std::sin(1.0 + 3.7 * i)));
  return out;
}

TEST(RoundAtRandom, GoesUpAsOftenAsTheNumberLiesNearTheNextOne) {
  constexpr size_t kCount = 20000;
  for (const float part : {0.125f, 0.5f, 0.9f})
    for (const float sign : {1.0f, -1.0f}) {
      const float low = 1.5f, high = 1.5078125f, x = low + part * (high - low);
      size_t up = 0;
      for (float y : rounded(std::vector<float>(kCount, sign * x), many(kCount, 0.3), rounding_salt(4))) {
        ASSERT_TRUE(y == sign * low || y == sign * high) << y;
        up += y == sign * high;
      }
      const double error = 4 * std::sqrt(part * (1 - part) / kCount);  // four standard deviations
      EXPECT_NEAR(static_cast<double>(up) / kCount, part, error) << sign * x;
    }
}

TEST(RoundAtRandom, KeepsWhatBf16HoldsAndWhatIsNoNumber) {
  const float infinity = std::numeric_limits<float>::infinity(),
              largest = std::ldexp(255.0f, 120);  // of bf16
  const std::vector<float> exact{0,       -0.0f,    1,        -3.5f,     0x1p-126f,
                                 largest, -largest, infinity, -infinity, 1.0078125f};
  for (int64_t step = 1; step <= 20; ++step)
    EXPECT_EQ(rounded(exact, many(exact.size(), 1), rounding_salt(step)), exact) << step;
  EXPECT_TRUE(std::isnan(rounded({std::nanf("")}, {1}, 1.5)[0]));
  const float beyond = std::nextafter(largest, infinity);  // to nearest
  EXPECT_EQ(rounded({beyond, std::numeric_limits<float>::max()}, {1, 1}, 1.5),
            (std::vector<float>{largest, infinity}));
}

TEST(RoundAtRandom, DrawsByTheElementAndTheStep) {
  const std::vector<float> x = many(4000, 1), g = many(4000, 0.01);
  const std::vector<float> whole = rounded(x, g, rounding_salt(7));
  const std::vector<float> part =
      rounded({x.begin() + 1000, x.end()}, {g.begin() + 1000, g.end()}, rounding_salt(7));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 1000));  // wherever it lies
  auto differ = [&](const std::vector<float>& other) {
    size_t count = 0;
    for (size_t i = 0; i < whole.size(); ++i) count += other[i] != whole[i];
    return count;
  };
  EXPECT_GT(differ(rounded(x, g, rounding_salt(8))), 1000u);  // a third: x (1 - x) twice, on average
  EXPECT_GT(differ(rounded(x, many(4000, 0.02), rounding_salt(7))), 1000u);
  std::set<double> salts;
  for (int64_t step = 1; step <= 10000; ++step) {
    const double salt = rounding_salt(step);
    EXPECT_EQ(static_cast<double>(static_cast<float>(salt)), salt);
    EXPECT_TRUE(salt >= 1 && salt < 2) << salt;
    salts.insert(salt);
  }
  EXPECT_GT(salts.size(), 9900u);
}

// Both moments draw with constants of one value; parameters that share a body share the simpler one.
TEST(RoundAtRandom, StandsInBodiesThatAreSimplifiedOnceForAll) {
  State state(solo_mesh(), 1);
  const std::vector<Parameter> parameters = {(state / "model").parameter("a", {8, 4}, init::zeros()),
                                             (state / "model").parameter("b", {2, 3}, init::zeros())};
  AdamW adamw(state / "optim", {.moments = DType::bf16});
  lockstep::testing::Tracing tracing(1, 1);
  std::vector<Tensor> gradients;
  for (const Parameter& parameter : parameters)
    gradients.emplace_back(
        tracing.builder,
        tracing.graph().add_input(InputKind::value, parameter.fqn() + ".g", DType::f32, parameter.shape()));
  adamw.update({parameters, gradients});
  auto bodies = [](const Graph& graph) {
    std::vector<std::shared_ptr<const Graph>> out;
    for (const Node& node : graph.nodes)
      if (node.body) out.push_back(node.body);
    return out;
  };
  const auto traced = bodies(tracing.graph());
  const Graph simpler = simplify(tracing.graph(), {});
  const auto made = bodies(simpler);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0], made[1]);
  EXPECT_LT(made[0]->nodes.size() + 20, traced[0]->nodes.size());
  verify(simpler, "simplify");
}

}  // namespace
}  // namespace lockstep
