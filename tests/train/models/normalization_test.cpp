// Norms: running statistics against plain sums in double, on any number of ranks; evaluation by them;
// gradients of batch_norm to second order; refusals.
#include "core/nn/normalization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/nn/assign.h"
#include "core/nn/layers.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

constexpr int64_t kGlobal = 12, kMicro = 2, kChannels = 3, kPlaces = 4, kSteps = 3;

float value(int64_t step, int64_t sample, int64_t e) {
  return philox::uniform(philox::bits(5, 6, static_cast<uint64_t>(step),
                                      static_cast<uint64_t>(sample * kChannels * kPlaces + e))) -
         0.3f;
}
void feed(int64_t step, int64_t first, int64_t count, void* to) {
  for (int64_t i = 0; i < count * kChannels * kPlaces; ++i)
    static_cast<float*>(to)[i] = value(step, first + i / (kChannels * kPlaces), i % (kChannels * kPlaces));
}

struct Result {
  std::string hash;
  std::map<std::string, std::vector<float>> state;
  double evaluated = 0;
};
// Squares of normalised images, which the layer sees `calls` times; then, under Evaluation, of step 9's.
Result run(const Mesh& words, int calls = 1) {
  Result out;
  distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    BatchNorm2d norm(state / "norm", kChannels);
    Sgd sgd(state / "optim", {.lr = 0.0});
    auto loss_of = [&](const Tensor& x) {
      Tensor y = norm(x);
      return Loss{sum(y * y * y), full(x, {}, 1, DType::i64)};
    };
    auto compiled = [&](bool training) {
      return compiler::compile(state, {{"x", DType::f32, {kMicro, kChannels, 2, 2}}}, {kGlobal, kMicro, 0},
                               [&](const std::vector<Tensor>& batch) {
                                 Evaluation evaluation(!training);
                                 Loss loss = loss_of(batch[0]);
                                 if (!training) return loss;
                                 for (int i = 1; i < calls; ++i) loss = loss_of(batch[0] * (1.0 + i));
                                 sgd.update(grad(loss, state.parameters()));
                                 return loss;
                               },
                               {});
    };
    auto train = compiled(true), evaluate = compiled(false);
    state.materialize();
    for (int64_t t = 1; t <= kSteps; ++t)
      train.run({t, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                   feed(t, first, count, to[0]);
                 }});
    auto told = evaluate.run({1, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                                feed(9, first, count, to[0]);
                              }});
    const std::string hash = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank != 0) return;
    out.hash = hash, out.evaluated = told.metrics.at("loss");
    for (Array* array : state.arrays()) {
      const auto* values = array->data.as<float>();
      out.state[array->fqn] = {values, values + array->local_numel()};
    }
  });
  return out;
}

struct Running {
  double mean = 0, variance = 1;
};
// What PyTorch's momentum of 0.1 makes of the mean statistics of micro-batches.
Running expected(int64_t channel, int calls) {
  constexpr int64_t kEach = kMicro * kPlaces;
  Running out;
  for (int64_t t = 1; t <= kSteps; ++t) {
    double means = 0, variances = 0;
    for (int64_t first = 0; first < kGlobal; first += kMicro) {
      double total = 0, squares = 0;
      for (int64_t i = 0; i < kEach; ++i)
        total += value(t, first + i / kPlaces, channel * kPlaces + i % kPlaces);
      for (int64_t i = 0; i < kEach; ++i)
        squares +=
            std::pow(value(t, first + i / kPlaces, channel * kPlaces + i % kPlaces) - total / kEach, 2);
      means += total / kEach, variances += squares / (kEach - 1);
    }
    constexpr double kBatches = static_cast<double>(kGlobal) / kMicro;
    for (int i = 1; i <= calls; ++i) {
      out.mean = 0.9 * out.mean + 0.1 * i * means / kBatches;
      out.variance = 0.9 * out.variance + 0.1 * i * i * variances / kBatches;
    }
  }
  return out;
}

TEST(BatchNormLayer, RunningStatisticsAreTheMeanOfMicroBatches) {
  for (int calls : {1, 2}) {
    const Result found = run({{1}, {"dp_replicate"}}, calls);
    for (int64_t c = 0; c < kChannels; ++c) {
      const Running wanted = expected(c, calls);
      EXPECT_NEAR(found.state.at("norm.running_mean")[c], wanted.mean, 1e-6) << calls;
      EXPECT_NEAR(found.state.at("norm.running_var")[c], wanted.variance, 1e-6) << calls;
    }
  }
}

TEST(BatchNormLayer, EvaluationNormalisesByThem) {
  const Result found = run({{1}, {"dp_replicate"}});
  double total = 0;
  for (int64_t s = 0; s < kGlobal; ++s)
    for (int64_t e = 0; e < kChannels * kPlaces; ++e) {
      const Running by = expected(e / kPlaces, 1);
      total += std::pow((value(9, s, e) - by.mean) / std::sqrt(by.variance + 1e-5), 3);
    }
  constexpr double kBatches = static_cast<double>(kGlobal) / kMicro;
  EXPECT_NEAR(found.evaluated, total / kBatches, 1e-4 * std::abs(total / kBatches));
}

TEST(BatchNormLayer, OneSetOfBitsOnEveryMesh) {
  for (int calls : {1, 2}) {
    const Result alone = run({{1}, {"dp_replicate"}}, calls);
    const Mesh meshes[] = {{{2}, {"dp_replicate"}}, {{3}, {"dp_replicate"}}, {{3}, {"dp_shard"}}};
    for (const Mesh& mesh : meshes) {
      const Result many = run(mesh, calls);
      EXPECT_EQ(alone.hash, many.hash) << mesh.dim_names[0] << " " << mesh.size();
      EXPECT_EQ(alone.evaluated, many.evaluated) << mesh.dim_names[0] << " " << mesh.size();
    }
  }
}

// Two steps of a loss of y and of the gradient's square: weights hold second derivatives, too. By the
// reference evaluator, whose sums round once: the second step's terms cancel, and show each rounding of a sum
// in f32.
std::map<std::string, std::vector<float>> trained(
    const std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>& norm) {
  State state(solo_mesh(), 3);
  Linear first(state / "first", 6, 5, false);
  const Parameter weight = (state / "norm").parameter("weight", {5}, init::ones()),
                  bias = (state / "norm").parameter("bias", {5}, init::zeros());
  Sgd sgd(state / "optim", {.lr = 0.01});
  compiler::Step step =
      compiler::compile(state, {{"x", DType::f32, {8, 6}}}, {8, 8, 0},
                        [&](const std::vector<Tensor>& batch) {
                          const Tensor h = first(batch[0]), y = norm(h, weight(h), bias(h));
                          const Tensor slope = grad(sum(y * y * y), {batch[0]})[0];
                          const Loss loss{sum(slope * slope) + sum(y * y * y), full(y, {}, 8, DType::i64)};
                          sgd.update(grad(loss, state.parameters()));
                          return loss;
                        },
                        {.backend = compiler::Backend::reference});
  state.materialize();
  for (int64_t t = 1; t <= 2; ++t)
    step.run({t, [&](int64_t, int64_t count, const std::vector<void*>& to) {
                for (int64_t i = 0; i < count * 6; ++i)
                  static_cast<float*>(to[0])[i] = value(t, i / 6, i % 6);
              }});
  std::map<std::string, std::vector<float>> out;
  for (Array* array : state.arrays()) {
    const auto* values = array->data.as<float>();
    out[array->fqn] = {values, values + array->local_numel()};
  }
  return out;
}
TEST(BatchNorm, GradientsToSecondOrderAreThoseOfItsFormula) {
  const auto own =
      trained([](const Tensor& x, const Tensor& w, const Tensor& b) { return batch_norm(x, w, b).y; });
  const auto formula = trained([](const Tensor& x, const Tensor& w, const Tensor& b) {
    const Tensor away = x - mean(x, {0}, true);
    return away * rsqrt(mean(away * away, {0}, true) + 1e-5) * w + b;
  });
  double moved = 0;
  for (const auto& [fqn, values] : formula) {
    double largest = 0;
    for (const float v : values) largest = std::max(largest, std::abs(static_cast<double>(v)));
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(own.at(fqn)[i], values[i], 1e-3 * largest) << fqn << " " << i;
      if (fqn == "norm.weight") moved += std::abs(values[i] - 1);
    }
  }
  EXPECT_GT(moved, 0.1);
}

// The variance of values far from 0, and of samples of which the first is unlike all others.
TEST(BatchNorm, StatisticsAreExactFarFromZeroAndBesideAStranger) {
  constexpr int64_t kSamples = 64;
  auto sample = [](int64_t channel, int64_t i) {
    const float u = value(1, i, channel);
    return channel == 0 ? 1000.0f + u : (i == 0 ? 500.0f : u);
  };
  State state(solo_mesh(), 3);
  const Parameter kept = state.root().buffer("variance", DType::f32, {2}, init::zeros());
  compiler::Step step = compiler::compile(state, {{"x", DType::f32, {kSamples, 2}}}, {kSamples, kSamples, 0},
                                          [&](const std::vector<Tensor>& batch) {
                                            const BatchNorm made = batch_norm(batch[0]);
                                            assign(kept, sum_lanes(made.variance));
                                            return Loss{sum(made.y), full(made.y, {}, 1, DType::i64)};
                                          },
                                          {});
  state.materialize();
  step.run({1, [&](int64_t, int64_t count, const std::vector<void*>& to) {
              for (int64_t i = 0; i < count * 2; ++i) static_cast<float*>(to[0])[i] = sample(i % 2, i / 2);
            }});
  for (int64_t c = 0; c < 2; ++c) {
    double total = 0, squares = 0;
    for (int64_t i = 0; i < kSamples; ++i) total += sample(c, i);
    for (int64_t i = 0; i < kSamples; ++i) squares += std::pow(sample(c, i) - total / kSamples, 2);
    const double wanted = squares / kSamples, found = state.arrays()[0]->data.as<float>()[c];
    EXPECT_NEAR(found, wanted, 1e-5 * wanted) << c;
  }
}

template <class F>
void refused(const F& made, const std::string& words) {
  try {
    made();
    ADD_FAILURE() << "accepted: " << words;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("normalization_test.cpp:"), std::string::npos) << e.what();
  }
}
TEST(BatchNormLayer, WhatDoesNotFitIsRefused) {
  State state(solo_mesh(), 1);
  refused([&] { GroupNorm(state / "group", 4, 6); }, "4 groups do not divide 6 channels");
  BatchNorm2d norm(state / "norm", 2);
  auto builder = std::make_shared<Builder>();
  Tensor x(builder, builder->graph.add_input(InputKind::batch, "x", DType::f32, {1, 2, 1, 1}));
  refused([&] { norm(x); },
          "a channel of f32[1,2,1,1] has one element in a micro-batch, and so no variance; raise batch.micro "
          "(micro_batch= of a program), or the size of the images");
  Evaluation evaluation;
  EXPECT_EQ(norm(x).shape(), (Shape{1, 2, 1, 1}));
}

}  // namespace
}  // namespace lockstep
