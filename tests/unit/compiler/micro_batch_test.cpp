// The micro-batch that follows from a batch and a step, and what is told of one that mixes samples.
#include "compiler/compile/micro_batch.h"

#include <gtest/gtest.h>

#include <array>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/nn/layers.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

using compiler::BatchField;

// A micro-batch is compared with the whole batch, and one sample shows no mixing: the function is traced
// again on two and on all, on every rank alike.
TEST(MicroBatch, TracesBesideTheStepAreMadeOnAllRanks) {
  std::array<int, 2> calls{};
  distributed::local_mesh(2, {{2}, {"dp_replicate"}}, [&](LiveMesh& mesh) {
    State state(mesh, 1);
    const Linear layer(state / "layer", 6, 6);
    Sgd sgd(state / "optim", {.lr = 0.1});
    compiler::begin_step(state, {{"x", DType::f32, {1, 6}}}, {4, 1, 0},
                         [&](const std::vector<Tensor>& batch) {
                           ++calls[static_cast<size_t>(mesh.rank)];
                           const Loss loss = mean_loss(square(layer(batch[0])));
                           sgd.update(grad(loss, state.parameters()));
                           return loss;
                         },
                         {});
  });
  EXPECT_EQ(calls[0], 3);
  EXPECT_EQ(calls[1], calls[0]);
}

struct Told {
  std::vector<std::string> lines;
  Told() {
    logs::set_sink([this](int, const std::string& line) { lines.push_back(line); });
  }
  ~Told() { logs::set_sink({}); }
};

TEST(MicroBatch, FollowsFromTheBatchAndTheStep) {
  {
    State state(solo_mesh(), 1);
    const Linear layer(state / "layer", 6, 6);
    Sgd sgd(state / "optim", {.lr = 0.1});
    const std::vector<BatchField> sample{{"x", DType::f32, {6}}};
    bool mixes = false;
    const compiler::StepFunction function = [&](const std::vector<Tensor>& batch) {
      Tensor y = layer(batch[0]);
      if (mixes) y = y - mean(y, {0}, true);
      const Loss loss = mean_loss(square(y));
      sgd.update(grad(loss, state.parameters()));
      return loss;
    };
    const auto chosen = [&](int64_t global) {
      return compiler::default_micro_batch(state, sample, global, function);
    };
    const std::pair<int64_t, int64_t> apart[] = {{1, 1},   {2, 1},   {6, 1},  {8, 2},    {16, 4},
                                                 {50, 10}, {64, 16}, {97, 1}, {256, 32}, {1024, 32}};
    for (const auto& [global, micro] : apart) EXPECT_EQ(chosen(global), micro) << global;
    mixes = true;
    Told told;
    for (int64_t global : {1, 50, 97}) EXPECT_EQ(chosen(global), global == 1 ? 1 : global);
    ASSERT_FALSE(told.lines.empty());
    EXPECT_NE(told.lines[0].find("mixes the samples of a batch: a micro-batch is the whole batch of 50"),
              std::string::npos)
        << told.lines[0];
    // A micro-batch that is given and smaller is told, once, also where it has one sample.
    told.lines.clear();
    for (const int64_t micro : {2, 1, 8}) {
      const auto batch = compiler::of_samples(sample, micro);
      const Graph traced = compiler::trace(batch, function, state.policy(), 8 / micro);
      compiler::tell_mixed_samples(state, traced, batch, 8, micro, function);
    }
    ASSERT_EQ(told.lines.size(), 1u);
    EXPECT_NE(told.lines[0].find("sum at micro_batch_test.cpp"), std::string::npos) << told.lines[0];
    EXPECT_NE(
        told.lines[0].find("mixes the samples of a micro-batch, which has 2 of the 8 of a step: it sees no "
                           "more of them at a time. A micro-batch of 8 sees the whole batch, on one rank"),
        std::string::npos)
        << told.lines[0];
  }
}

// A step that reads how many samples it has, and what is told of it.
TEST(MicroBatch, OfAStepThatReadsItsSize) {
  State state(solo_mesh(), 1);
  const Linear layer(state / "layer", 6, 6);
  Sgd sgd(state / "optim", {.lr = 0.1});
  const std::vector<BatchField> sample{{"x", DType::f32, {6}}};
  const auto step = [&](const std::function<Loss(const Tensor&)>& of) -> compiler::StepFunction {
    return [&, of](const std::vector<Tensor>& batch) {
      const Loss loss = of(layer(batch[0]));
      sgd.update(grad(loss, state.parameters()));
      return loss;
    };
  };
  const auto numbered = step([](const Tensor& y) {
    return mean_loss(y * unsqueeze(convert(iota(y, {y.size(0)}, 0, DType::i32), DType::f32), 1));
  });
  const auto counted = step([](const Tensor& y) { return Loss{sum(y), full(y, {}, 48, DType::i64)}; });
  const auto drawn = step([](const Tensor& y) { return mean_loss(y + randn(y, {1, 6})); });
  const auto features = step([](const Tensor& y) { return mean_loss(linear(y, randn(y, {2, 6}))); });
  const auto small = step([](const Tensor& y) {
    if (y.size(0) < 8) throw UserError("needs 8 samples");
    return mean_loss(y);
  });
  Told told;
  const auto expect = [&](const compiler::StepFunction& of, int64_t chosen, const std::string& info,
                          const std::string& warning) {
    told.lines.clear();
    EXPECT_EQ(compiler::default_micro_batch(state, sample, 8, of), chosen);
    ASSERT_EQ(told.lines.size(), info.empty() ? 0u : 1u);
    if (!told.lines.empty()) { EXPECT_NE(told.lines[0].find(info), std::string::npos) << told.lines[0]; }
    told.lines.clear();
    const auto batch = compiler::of_samples(sample, 8 / 4);
    if (chosen == 8 && warning.empty()) return;
    const Graph traced = compiler::trace(batch, of, state.policy(), 4);
    compiler::tell_mixed_samples(state, traced, batch, 8, 2, of);
    ASSERT_EQ(told.lines.size(), warning.empty() ? 0u : 1u);
    if (!told.lines.empty()) { EXPECT_NE(told.lines[0].find(warning), std::string::npos) << told.lines[0]; }
  };
  const std::string tail =
      "a micro-batch, which has 2 of the 8 of a step: the step computes something else on it. A micro-batch "
      "of "
      "8 sees the whole batch, on one rank";
  expect(
      numbered, 8,
      "reads places in, or the size of, a batch: a micro-batch is the whole batch of 8, unless micro_batch "
      "says otherwise",
      "reads places in, or the size of, " + tail);
  expect(counted, 8, "does not grow in proportion to a batch: ", "does not grow in proportion to " + tail);
  expect(drawn, 8, "is drawn once for a batch: ", "is drawn once for " + tail);
  expect(small, 8, "the step function refuses 2 samples: a micro-batch is the whole batch of 8", "");
  expect(features, 2, "", "");
}

}  // namespace
}  // namespace lockstep
