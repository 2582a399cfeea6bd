// Optimizers: PyTorch's numbers, groups, averages of weights, and the same bits on every mesh.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/optim/adafactor.h"
#include "core/optim/adagrad.h"
#include "core/optim/adamw.h"
#include "core/optim/average.h"
#include "core/optim/lion.h"
#include "core/optim/muon.h"
#include "core/optim/rmsprop.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

using namespace compiler;
using namespace distributed;

// As in tests/golden/optimizers/make.py.
float value(int64_t i, int64_t salt) { return static_cast<float>((i * 37 + salt * 101) % 97 - 48) / 64.0f; }

using Made = std::unique_ptr<Optimizer>;
using Make = std::function<Made(State&)>;
struct Result {
  std::string hash;
  std::map<std::string, std::vector<float>> state;
  std::vector<std::string> names;
};

// Five steps in which the gradients are given: the loss is the sum of weight times data, over one sample.
Result run(const Make& make, const Mesh& words = {{1}, {"dp_replicate"}}, double average = -1,
           bool tall = false, int zero = 3) {
  Result out;
  const Shape shape = tall ? Shape{4, 3} : Shape{3, 4};
  local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    state.zero(zero);
    Parameter weight = state.root().parameter("weight", shape, init::zeros());
    Parameter bias = state.root().parameter("bias", {3}, init::zeros());
    state.place_by_default({{"tp", "weight", Shard(0, static_cast<int>(shape[0]))}});  // no tp here
    Made optimizer = make(state);
    std::unique_ptr<WeightAverage> mean;
    if (average >= 0) mean = std::make_unique<WeightAverage>(state / "ema", average);
    Step step =
        compile(state, {{"w", DType::f32, {1, shape[0], shape[1]}}, {"b", DType::f32, {1, 3}}}, {6, 1, 0},
                [&](const std::vector<Tensor>& batch) {
                  Tensor w = weight(batch[0]), b = bias(batch[0]);
                  Loss loss{sum(reshape(batch[0], shape) * w, {0, 1}) + sum(reshape(batch[1], {3}) * b, {0}),
                            full(batch[0], {}, 1, DType::i64)};
                  optimizer->update(grad(loss, state.parameters()));
                  if (mean) mean->update(batch[0]);
                  return loss;
                },
                {});
    state.materialize();
    for (Array* array : state.arrays())
      if (array->fqn == "weight" || array->fqn == "bias") {
        const int64_t salt = array->fqn == "weight" ? 1 : 2;
        int64_t at = 0;
        for (const Piece& piece : array->pieces)
          for (int64_t i = 0; i < numel(piece.global); ++i, ++at)
            array->data.as<float>()[at] =
                value(piece.global.offset[0] * (array->fqn == "weight" ? shape[1] : 1) + i, salt);
        array->host_wrote();
      }
    for (int64_t t = 1; t <= 5; ++t)
      step.run({t, [&](int64_t, int64_t count, const std::vector<void*>& fields) {
                  for (int64_t n = 0; n < count; ++n) {  // all samples alike: the mean is the gradient
                    for (int64_t i = 0; i < 12; ++i)
                      static_cast<float*>(fields[0])[n * 12 + i] = value(i, 10 + t);
                    for (int64_t i = 0; i < 3; ++i)
                      static_cast<float*>(fields[1])[n * 3 + i] = value(i, 20 + t);
                  }
                }});
    std::string mine = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank != 0) return;
    out.hash = mine;
    for (Array* array : state.arrays()) {
      out.names.push_back(array->fqn);
      for (int64_t i = 0; i < array->local_numel(); ++i)
        out.state[array->fqn].push_back(static_cast<float>(get_double(array->dtype, array->data.data(), i)));
    }
  });
  return out;
}

template <class Kind, class Options>
Make made_of(Options options) {
  return [options](State& state) { return std::make_unique<Kind>(state / "optim", options); };
}
Make muon(MuonOptions options) {
  return [options](State& state) {
    return std::make_unique<Muon>(
        state / "optim", options,
        AdamWOptions{.lr = 0.05, .betas = {0.8, 0.9}, .eps = 1e-6, .weight_decay = 0});
  };
}
std::map<std::string, Make> kinds() {
  return {
      {"adamw", made_of<AdamW>(AdamWOptions{
                    .lr = 0.02, .betas = {0.8, 0.9}, .eps = 1e-6, .weight_decay = 0.1, .clip = 0})},
      {"sgd", made_of<Sgd>(SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1})},
      {"nesterov",
       made_of<Sgd>(SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true})},
      {"rmsprop", made_of<Rmsprop>(RmspropOptions{
                      .lr = 0.02, .alpha = 0.9, .eps = 1e-6, .momentum = 0.5, .weight_decay = 0.1})},
      {"adafactor", made_of<Adafactor>(AdafactorOptions{.lr = 0.05, .eps1 = 1e-6, .weight_decay = 0.1})},
      {"muon", muon(MuonOptions{.lr = 0.02, .weight_decay = 0.1})},
      {"muon_tall", muon(MuonOptions{.lr = 0.02, .weight_decay = 0.1})},
      {"muon_rms",
       muon(MuonOptions{.lr = 0.02, .momentum = 0.9, .nesterov = false, .rate = MuonRate::match_rms_adamw})},
      {"adagrad", made_of<Adagrad>(AdagradOptions{.lr = 0.1, .eps = 1e-6, .weight_decay = 0.1})},
  };
}
Json golden() {
  std::ifstream file(LOCKSTEP_GOLDEN_OPTIMIZERS);
  return Json::parse(file);
}

TEST(Optimizers, AgreeWithPyTorch) {
  const Json numbers = golden();
  for (const auto& [name, make] : kinds()) {
    const Result found = run(make, {{1}, {"dp_replicate"}}, -1, name == "muon_tall");
    for (const char* fqn : {"weight", "bias"}) {
      const auto wanted = numbers["cases"][name][fqn].get<std::vector<double>>();
      ASSERT_EQ(found.state.at(fqn).size(), wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i)
        EXPECT_NEAR(found.state.at(fqn)[i], wanted[i], name.starts_with("muon") ? 2e-5 : 3e-6)
            << name << " " << fqn << "[" << i << "]";
    }
  }
}

// Lion as in its paper, in double.
TEST(Optimizers, LionFollowsItsPaper) {
  const Result found = run(made_of<Lion>(LionOptions{.lr = 0.01, .weight_decay = 0.1, .clip = 0}));
  for (int64_t i = 0; i < 12; ++i) {
    double p = value(i, 1), m = 0;
    for (int64_t t = 1; t <= 5; ++t) {
      const double g = value(i, 10 + t), direction = 0.9 * m + 0.1 * g;
      p = p * (1 - 0.01 * 0.1) - 0.01 * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
      m = 0.99 * m + 0.01 * g;
    }
    EXPECT_NEAR(found.state.at("weight")[static_cast<size_t>(i)], p, 1e-6);
    EXPECT_NEAR(found.state.at("optim.weight.exp_avg")[static_cast<size_t>(i)], m, 1e-6);
  }
}

// Moments in bf16 are off by less than a part in 128 each time; the updates of five steps are near those of
// f32.
TEST(Optimizers, RoundedMomentsFollowThoseInF32) {
  auto near = [](const Make& rounded, const Make& exact, const std::vector<std::string>& moments) {
    const Result a = run(rounded), b = run(exact);
    EXPECT_NE(a.hash, b.hash);
    for (const std::string& name : moments)
      for (size_t i = 0; i < a.state.at(name).size(); ++i) {
        const float found = a.state.at(name)[i];
        EXPECT_EQ(static_cast<float>(bf16(found)), found) << name;
        EXPECT_NEAR(found, b.state.at(name)[i], 0.02 * std::fabs(b.state.at(name)[i]) + 0.005) << name;
      }
    for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(a.state.at("weight")[i], b.state.at("weight")[i], 0.01) << i;
  };
  AdamWOptions adamw{.lr = 0.02, .betas = {0.8, 0.9}, .eps = 1e-6, .clip = 0};
  LionOptions lion{.lr = 0.001, .clip = 0};
  const Make exact_adamw = made_of<AdamW>(adamw), exact_lion = made_of<Lion>(lion);
  adamw.moments = lion.moments = DType::bf16;
  near(made_of<AdamW>(adamw), exact_adamw, {"optim.weight.exp_avg", "optim.bias.exp_avg_sq"});
  near(made_of<Lion>(lion), exact_lion, {"optim.weight.exp_avg"});
}

// Each group has its own; of Muon they are those of its AdamW.
TEST(Optimizers, MomentsAreRoundedByGroup) {
  auto rounded = [](const Result& of, const std::string& name) {
    const auto& values = of.state.at(name);
    return std::all_of(values.begin(), values.end(),
                       [](float value) { return static_cast<float>(bf16(value)) == value; });
  };
  const Result groups = run([](State& state) {
    return std::make_unique<AdamW>(
        state / "optim", AdamWOptions{},
        std::vector<AdamWOptions>{{.moments = DType::bf16, .parameters = {state.find_spec("bias")}}});
  });
  EXPECT_TRUE(rounded(groups, "optim.bias.exp_avg") && rounded(groups, "optim.bias.exp_avg_sq"));
  EXPECT_FALSE(rounded(groups, "optim.weight.exp_avg"));
  const Result both = run([](State& state) {
    return std::make_unique<Muon>(state / "optim", MuonOptions{}, AdamWOptions{.moments = DType::bf16});
  });
  EXPECT_TRUE(rounded(both, "optim.bias.exp_avg"));
  EXPECT_FALSE(rounded(both, "optim.weight.momentum_buffer"));
}

// A rule of a user's own over rounded moments: a step by the direction of a whole gradient.
struct Directed : RuleOptimizer {
  Directed(State& state, bool by_elements)
      : RuleOptimizer(state / "optim", rule(by_elements), Here::current()) {}
  static Rule rule(bool by_elements) {
    RuleGroup group{.moments = like_parameter({"m"})};
    group.scalars = [](int64_t, int64_t) { return State::Scalars{{"lr", 0.01}}; };
    group.step = [](const RuleInput& of) {
      std::vector<int64_t> dims(static_cast<size_t>(of.p.ndim()));
      std::iota(dims.begin(), dims.end(), 0);
      const Tensor m = of.moments[0] * 0.5 + of.clipped();
      const Tensor length = broadcast_to(sqrt(sum(m * m, dims)), m.shape());
      return std::vector{of.p - of.scalar("lr") * (m / length), m};
    };
    group.kept = DType::bf16, group.by_elements = by_elements;
    return {.kind = "directed", .groups = {std::move(group)}, .rest = 0};
  }
};
TEST(Optimizers, ARuleOfWholeTensorsRoundsItsMoments) {
  const auto make = [](bool by_elements) {
    return [=](State& state) { return std::make_unique<Directed>(state, by_elements); };
  };
  const Result alone = run(make(false));
  for (float m : alone.state.at("optim.weight.m")) EXPECT_EQ(static_cast<float>(bf16(m)), m);
  EXPECT_EQ(run(make(false), {{2}, {"dp_shard"}}).hash, alone.hash);
  EXPECT_EQ(run(make(false), {{3}, {"dp_replicate"}}).hash, alone.hash);
  try {
    run(make(true));
    ADD_FAILURE() << "a sum over elements was taken for arithmetic of one";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("the rule is said to be by_elements, and its sum is not element by "
                        "element; leave RuleGroup::by_elements false"),
              std::string::npos)
        << error.what();
  }
}

TEST(Optimizers, OneSetOfBitsOnEveryMesh) {
  auto all = kinds();
  all["lion"] = made_of<Lion>(LionOptions{});
  all["adamw, rounded moments"] = made_of<AdamW>(AdamWOptions{.moments = DType::bf16});
  all["lion, rounded moments"] = made_of<Lion>(LionOptions{.moments = DType::bf16});
  for (const auto& [name, make] : all) {
    const std::string alone = run(make, {{1}, {"dp_replicate"}}, 0.9).hash;
    for (const Mesh& mesh :
         {Mesh{{2}, {"dp_replicate"}}, Mesh{{3}, {"dp_replicate"}}, Mesh{{2}, {"dp_shard"}},
          Mesh{{3}, {"dp_shard"}}, Mesh{{2, 2}, {"dp_replicate", "dp_shard"}}})
      for (int zero : {1, 3})
        EXPECT_EQ(run(make, mesh, 0.9, false, zero).hash, alone)
            << name << " on " << text(mesh) << ", zero " << zero;
  }
}

TEST(Optimizers, GroupsHaveOptionsAndMomentsOfTheirOwn) {
  const Make both = [](State& state) {
    return std::make_unique<Sgd>(
        state / "optim", SgdOptions{.lr = 0.05},
        std::vector<SgdOptions>{{.lr = 0.5, .momentum = 0.5, .parameters = {state.find_spec("bias")}}});
  };
  const Result grouped = run(both), slow = run(made_of<Sgd>(SgdOptions{.lr = 0.05})),
               fast = run(made_of<Sgd>(SgdOptions{.lr = 0.5, .momentum = 0.5}));
  EXPECT_EQ(grouped.state.at("weight"), slow.state.at("weight"));
  EXPECT_EQ(grouped.state.at("bias"), fast.state.at("bias"));
  EXPECT_EQ(run(both, {{3}, {"dp_shard"}}).hash, grouped.hash);
}

// Two optimizers, each with its parameters: no moment that none of them updates.
struct Pair : Optimizer {
  std::unique_ptr<Sgd> first;
  std::unique_ptr<AdamW> second;
  explicit Pair(State& state)
      : Optimizer(state / "pair", {}),
        first(std::make_unique<Sgd>(state / "first",
                                    SgdOptions{.lr = 0.05, .parameters = {state.find_spec("weight")}})),
        second(std::make_unique<AdamW>(state / "second",
                                       AdamWOptions{.lr = 0.02, .parameters = {state.find_spec("bias")}})) {}
  void update(const Gradients& all, Here) override {
    first->update({{all.parameters[0]}, {all.values[0]}});
    second->update({{all.parameters[1]}, {all.values[1]}});
  }
  std::map<std::string, double> scalars(int64_t) const override { return {}; }
};
TEST(Optimizers, MomentsExistForWhatIsUpdated) {
  const Result found = run([](State& state) { return std::make_unique<Pair>(state); });
  EXPECT_EQ(found.names, (std::vector<std::string>{"weight", "bias", "first.weight.momentum",
                                                   "second.bias.exp_avg", "second.bias.exp_avg_sq"}));
}

TEST(Optimizers, AnAverageFollowsTheNewWeights) {
  std::vector<std::vector<float>> weights;
  // The average of the first k steps is not seen; five steps by hand from runs of a constant gradient's rule.
  const Result found = run(made_of<Sgd>(SgdOptions{.lr = 0.05}), {{2}, {"dp_shard"}}, 0.5);
  std::vector<double> p(3), average(3);
  for (int64_t i = 0; i < 3; ++i) {
    auto at = static_cast<size_t>(i);
    p[at] = value(i, 2);
    for (int64_t t = 1; t <= 5; ++t) {
      p[at] -= 0.05 * value(i, 20 + t);
      average[at] = t == 1 ? p[at] : 0.5 * average[at] + 0.5 * p[at];
    }
  }
  for (size_t i = 0; i < found.state.at("ema.bias.average").size(); ++i)
    EXPECT_NEAR(found.state.at("ema.bias.average")[i], average[i], 1e-6);
}

TEST(Optimizers, SchedulesOfAFunction) {
  const Json numbers = golden();
  const auto wanted = numbers["restarts"].get<std::vector<double>>();
  const Schedule restarts = cosine_restarts(1.0, 0, 3, 2, 0.1);
  for (size_t t = 0; t < wanted.size(); ++t)
    EXPECT_NEAR(restarts.at(static_cast<int64_t>(t) + 1), wanted[t], 1e-12) << t;
  const Schedule wsd = warmup_stable_decay(2.0, 2, 10, 4, 0.5);
  const double rates[] = {1, 2, 2, 2, 2, 2, 1.75, 1.5, 1.25, 1, 1};
  for (int64_t t = 1; t <= 11; ++t) EXPECT_DOUBLE_EQ(wsd.at(t), rates[t - 1]) << t;
  const Schedule own(3.0, [](int64_t t) { return 1.0 / static_cast<double>(t); });
  EXPECT_DOUBLE_EQ(own.at(6), 0.5);
}

void refused(const std::function<void()>& what, const std::string& words) {
  try {
    what();
    ADD_FAILURE() << "not refused: " << words;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}
TEST(Optimizers, WhatIsWrongIsRefused) {
  refused([] { Schedule(1.0, [](int64_t) { return -1.0; }).at(3); },
          "[schedule] the function gives -1 for update 3; a rate is a number of at least 0");
  refused([] { warmup_stable_decay(1, 0, 10, 11); }, "decay is 11 of 10 steps; it must be between 0 and 10");
  refused([] { cosine_restarts(1, 0, 0); }, "period is 0; it must be at least 1 step");
  refused([] { run(made_of<AdamW>(AdamWOptions{.moments = DType::f16})); },
          "moments is f16; choose f32 or bf16");
  refused([] { run(made_of<Sgd>(SgdOptions{.nesterov = true})); },
          "momentum (of nesterov) is 0; it must be above 0");
  refused(
      [] {
        run([](State& state) {
          const Parameter bias = state.find_spec("bias");
          return std::make_unique<Sgd>(
              state / "optim", SgdOptions{},
              std::vector<SgdOptions>{{.parameters = {bias}}, {.parameters = {bias}}});
        });
      },
      "\"bias\" is in two groups; pass each parameter once");
  refused(
      [] {
        run([](State& state) {
          return std::make_unique<Sgd>(state / "optim", SgdOptions{.parameters = {state.find_spec("bias")}});
        });
      },
      "\"weight\" is in no group of this optimizer (");
  refused(
      [] {
        run([](State& state) {
          return std::make_unique<Muon>(state / "optim",
                                        MuonOptions{.parameters = {state.find_spec("bias")}});
        });
      },
      "\"bias\" is f32[3], and Muon makes matrices orthogonal; leave it to AdamW");
  refused(
      [] {
        run([](State& state) {
          return std::make_unique<Muon>(state / "optim", MuonOptions{},
                                        AdamWOptions{.parameters = state.parameters()});
        });
      },
      "no parameter is left that is trained and has two dims; construct it after the model");
  refused([] { run(muon(MuonOptions{.iterations = 0})); }, "iterations is 0; it must be above 0");
  refused([] { run(made_of<Adafactor>(AdafactorOptions{.d = 0.5})); }, "d is 0.5; it must be at least 1");
  refused([] { run(made_of<Adafactor>(AdafactorOptions{.beta2_decay = 0.8})); },
          "beta2_decay is 0.8; it must be at most 0");
  refused([] { run(made_of<Sgd>(SgdOptions{}), {{1}, {"dp_replicate"}}, 1.0); },
          "decay is 1; it must be at least 0 and less than 1");
}

}  // namespace
}  // namespace lockstep
