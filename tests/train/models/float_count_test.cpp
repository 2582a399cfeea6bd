// Losses with a float count, and random numbers of samples: the same bits on any number of ranks, and the
// mean that the weights say.
#include <gtest/gtest.h>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/nn/metric.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

constexpr int64_t kGlobal = 12, kMicro = 2, kWidth = 8;

using LossOf = std::function<Loss(State&, const Tensor& x)>;
float element(int64_t step, int64_t index) {
  return philox::uniform(philox::bits(5, 6, static_cast<uint64_t>(step), static_cast<uint64_t>(index))) -
         0.5f;
}

struct Ran {
  std::string hash, losses;
  double first = 0, count = 0;
};
Ran run(const LossOf& loss_of, int ranks, std::vector<std::string> dims = {}) {
  Ran out;
  auto body = [&](LiveMesh& mesh) {
    State state(mesh, 3);
    state.root().parameter("a", {6, kWidth}, init::normal(0.5));
    state.root().buffer("classes", DType::f32, {6}, init::uniform(0.5, 2));
    Sgd sgd(state / "optim", {.lr = 0.1});
    if (!dims.empty() && dims[0] == "dp_shard") state.place({{"dp_shard", "classes", Shard(0)}});
    compiler::Step step = compile(
        state, {{"x", DType::f32, {kMicro, kWidth}}}, {kGlobal, kMicro, 0},
        [&](const std::vector<Tensor>& batch) {
          Loss loss = loss_of(state, batch[0]);
          sgd.update(grad(loss, state.parameters()));
          return loss;
        },
        compiler::CompileOptions{});
    state.materialize();
    for (int64_t i = 1; i <= 3; ++i) {
      auto result = step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
                                for (int64_t e = 0; e < count * kWidth; ++e)
                                  static_cast<float*>(fields[0])[e] = element(i, first * kWidth + e);
                              }});
      if (mesh.rank == 0) {
        out.losses += number_text(result.metrics.at("loss")) + " ";
        if (i == 1) out.first = result.metrics.at("loss"), out.count = result.metrics.at("tokens");
      }
    }
    std::string mine = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank == 0) out.hash = mine;
  };
  if (dims.empty())
    distributed::with_ranks(ranks, body);
  else
    distributed::local_mesh(ranks, Mesh{{ranks}, dims}, body);
  return out;
}
void expect_same_everywhere(const LossOf& loss_of) {
  const Ran one = run(loss_of, 1);
  EXPECT_NE(one.losses.find(' '), one.losses.rfind(' ')) << one.losses;
  for (int ranks : {2, 3, 4}) {
    for (const char* dim : {"dp_replicate", "dp_shard"}) {
      const Ran many = run(loss_of, ranks, {dim});
      EXPECT_EQ(many.losses, one.losses) << ranks << " ranks, " << dim;
      EXPECT_EQ(many.hash, one.hash) << ranks << " ranks, " << dim;
    }
  }
}
Tensor logits(State& state, const Tensor& x) { return linear(x, state.find_spec("a")(x)); }
// The weight of a row, from the data alone.
Tensor row_weights(const Tensor& x) { return sum(abs(x), {1}); }

TEST(FloatCount, SameBitsOnAnyRankCount) {
  expect_same_everywhere([](State& state, const Tensor& x) {
    return mean_loss(sum(square(logits(state, x)), {1}), row_weights(x));
  });
}

// The mean over all micro-batches, not the mean of means.
TEST(FloatCount, DividesByTheSumOfAllWeights) {
  const Ran ran = run([](State&, const Tensor& x) { return mean_loss(sum(x, {1}), row_weights(x)); }, 3);
  double total = 0, weights = 0;
  for (int64_t row = 0; row < kGlobal; ++row) {
    double value = 0, weight = 0;
    for (int64_t e = 0; e < kWidth; ++e) {
      value += element(1, row * kWidth + e);
      weight += std::fabs(element(1, row * kWidth + e));
    }
    total += value * weight, weights += weight;
  }
  EXPECT_NEAR(ran.first, total / weights, 1e-6);
  EXPECT_NEAR(ran.count, weights, 1e-5);
}

TEST(FloatCount, ClassWeights) {
  auto targets = [](const Tensor& x) { return argmax(slice(x, 1, 0, 6), 1); };
  expect_same_everywhere([&](State& state, const Tensor& x) {
    return cross_entropy(logits(state, x), targets(x),
                         {.weight = constant(x, {0.5, 2, 1, 0.25, 1, 3}), .smoothing = 0.1});
  });
}

// Class weights that lie in the state, whole or as rows.
TEST(FloatCount, ClassWeightsOfABuffer) {
  expect_same_everywhere([](State& state, const Tensor& x) {
    return cross_entropy(logits(state, x), argmax(slice(x, 1, 0, 6), 1),
                         {.weight = state.find_spec("classes")(x)});
  });
  const Ran ran = run(
      [](State& state, const Tensor& x) {
        return mean_loss(sum(x, {1}), broadcast_to(sum(state.find_spec("classes")(x), {0}), {kMicro}));
      },
      2, {"dp_shard"});
  double total = 0;
  for (int64_t row = 0; row < kGlobal; ++row)
    for (int64_t e = 0; e < kWidth; ++e) total += element(1, row * kWidth + e);
  EXPECT_NEAR(ran.first, total / kGlobal, 1e-6);
  EXPECT_GT(ran.count, kGlobal * 6 * 0.5);
}

// A mean does not depend on the scale of its weights, from the least f32 that has an inverse to where a sum
// of weights has none.
TEST(FloatCount, OneMeanAtEveryScale) {
  const auto mean = [](double scale) {
    return run([scale](State&, const Tensor& x) { return mean_loss(sum(x, {1}), row_weights(x) * scale); },
               2);
  };
  const Ran one = mean(1);
  for (const int power : {-100, -60, -41, -20, 20, 62, 63, 64, 100, 110}) {
    const Ran ran = mean(std::ldexp(1.0, power));
    EXPECT_EQ(ran.first, one.first) << power;  // powers of two change no digit
    EXPECT_EQ(ran.count, std::ldexp(one.count, power)) << power;
  }
  for (const double scale : {1e-30, 1e-14, 1e-9, 1e15, 1e19, 1e30})
    EXPECT_NEAR(mean(scale).first, one.first, std::fabs(one.first) * 1e-5) << scale;
  for (const double scale : {1e-42, 1e37}) EXPECT_TRUE(std::isnan(mean(scale).first)) << scale;
}

TEST(FloatCount, OneThatIsNotFiniteShows) {
  const Ran ran =
      run([](State&,
             const Tensor& x) { return mean_loss(sum(x, {1}), full(x, {kMicro}, 1e30, DType::f32) * 1e30); },
          2);
  EXPECT_TRUE(std::isnan(ran.first)) << ran.first;
}

TEST(FloatCount, NoneThatDependsOnTrainedState) {
  try {
    run([](State& state,
           const Tensor& x) { return mean_loss(sum(x, {1}), sum(square(logits(state, x)), {1})); },
        1);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("reads the state \"a\""), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("a loss's count must depend on data and on buffers that stay"),
              std::string::npos)
        << error.what();
  }
}

// Noise belongs to a sample: neither ranks nor the size of a micro-batch change it.
TEST(RandomFunctions, SameBitsOnAnyRankCount) {
  expect_same_everywhere([](State& state, const Tensor& x) {
    Tensor noisy = x + 0.1 * randn(x, x.shape()) + uniform(x, x.shape(), -0.1, 0.1);
    noisy = noisy * bernoulli(x, x.shape(), 0.9) + truncated_normal(x, x.shape(), 0, 0.1, -0.2, 0.2);
    noisy = dropout_channels(noisy, 0.2) + dropout_samples(x, 0.3);
    noisy = rrelu(noisy) +
            0.1 * convert(multinomial(exp(x), kWidth) - multinomial(exp(x), kWidth, true), DType::f32);
    Tensor bin = one_hot(randint(x, {kMicro}, 0, 6), 6);
    return mse_loss(gumbel_softmax(logits(state, noisy)), bin);
  });
}

}  // namespace
}  // namespace lockstep
