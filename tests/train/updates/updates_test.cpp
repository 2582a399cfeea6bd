// What counts updates counts those that were made: behind steps that are passed over, resumed runs, tensors
// that join later, and in steps that update different tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "checkpoint/checkpoint.h"
#include "compiler/compile/compile.h"
#include "compiler/compile/steps_by_shape.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/nn/layers.h"
#include "core/optim/all.h"
#include "core/optim/average.h"
#include "distributed/local/local_world.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

using namespace compiler;

// As in tests/golden/optimizers/make.py.
float value(int64_t i, int64_t salt) { return static_cast<float>((i * 37 + salt * 101) % 97 - 48) / 64.0f; }
const Json& golden() {
  static const Json all = [] {
    std::ifstream file(LOCKSTEP_GOLDEN_OPTIMIZERS);
    return Json::parse(file);
  }();
  return all;
}

using Made = std::unique_ptr<Optimizer>;
using Make = std::function<Made(State&)>;
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
const AdamWOptions kAdamW{.lr = 0.02, .betas = {0.8, 0.9}, .eps = 1e-6, .weight_decay = 0.1, .clip = 0};
const AdafactorOptions kAdafactor{.lr = 0.05, .eps1 = 1e-6, .weight_decay = 0.1};
std::map<std::string, Make> kinds() {
  return {
      {"adamw", made_of<AdamW>(kAdamW)},
      {"sgd", made_of<Sgd>(SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1})},
      {"nesterov",
       made_of<Sgd>(SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true})},
      {"rmsprop", made_of<Rmsprop>(RmspropOptions{
                      .lr = 0.02, .alpha = 0.9, .eps = 1e-6, .momentum = 0.5, .weight_decay = 0.1})},
      {"adafactor", made_of<Adafactor>(kAdafactor)},
      {"muon", muon(MuonOptions{.lr = 0.02, .weight_decay = 0.1})},
      {"muon_tall", muon(MuonOptions{.lr = 0.02, .weight_decay = 0.1})},
      {"muon_rms",
       muon(MuonOptions{.lr = 0.02, .momentum = 0.9, .nesterov = false, .rate = MuonRate::match_rms_adamw})},
      {"adagrad", made_of<Adagrad>(AdagradOptions{.lr = 0.1, .eps = 1e-6, .weight_decay = 0.1})},
  };
}
bool passed_over(int64_t step) {
  const auto& steps = golden()["passed_over"];
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

// A state of one weight and one bias, and a step whose gradients are its data.
struct Model {
  Model(const LiveMesh& live, const Make& make, bool tall = false, bool with_bias = true,
        double average = 0.5)
      : mesh(live), shape(tall ? Shape{4, 3} : Shape{3, 4}), state(live, 3) {
    weight = state.root().parameter("weight", shape, init::zeros());
    if (with_bias) bias = state.root().parameter("bias", {3}, init::zeros());
    optimizer = make(state);
    mean = std::make_unique<WeightAverage>(state / "ema", average);
  }
  std::vector<BatchField> fields(int64_t micro = 1) const {
    return {{"w", DType::f32, {micro, shape[0], shape[1]}}, {"b", DType::f32, {micro, 3}}};
  }
  StepFunction function(bool of_weight = true, bool of_bias = true) {
    return [=, this](const std::vector<Tensor>& batch) {
      std::vector<Tensor> terms;
      std::vector<Parameter> updated;
      if (of_weight)
        terms.push_back(sum(reshape(batch[0], shape) * weight(batch[0]), {0, 1})), updated.push_back(weight);
      if (of_bias && bias)
        terms.push_back(sum(reshape(batch[1], {3}) * bias(batch[0]), {0})), updated.push_back(bias);
      Loss loss{terms.size() > 1 ? terms[0] + terms[1] : terms[0], full(batch[0], {}, 1, DType::i64)};
      optimizer->update(grad(loss, updated));
      if (of_weight && (of_bias || !bias)) mean->update(batch[0]);
      return loss;
    };
  }
  Step compiled() { return compile(state, fields(), {6, 1, 0}, function(), {}); }
  void set(const char* fqn, int64_t salt) {
    Array& array = state.array(fqn);
    const int64_t row = array.shape.size() > 1 ? array.shape[1] : 1;
    int64_t at = 0;
    for (const Piece& piece : array.pieces)
      for (int64_t i = 0; i < numel(piece.global); ++i, ++at)
        array.data.as<float>()[at] = value(piece.global.offset[0] * row + i, salt);
    array.host_wrote();
  }
  void start() {
    state.materialize();
    set("weight", 1);
    if (bias) set("bias", 2);
  }
  static StepInput input(int64_t t, bool bad = false) {
    return {t, [t, bad](int64_t, int64_t count, const std::vector<void*>& to) {
              for (int64_t n = 0; n < count; ++n) {  // all samples alike: the mean is the gradient
                for (int64_t i = 0; i < 12; ++i) static_cast<float*>(to[0])[n * 12 + i] = value(i, 10 + t);
                for (int64_t i = 0; i < 3; ++i) static_cast<float*>(to[1])[n * 3 + i] = value(i, 20 + t);
                if (bad) static_cast<float*>(to[0])[0] = std::numeric_limits<float>::quiet_NaN();
              }
            }};
  }
  std::string hash() { return state_hash(std::as_const(state).arrays(), mesh); }
  std::vector<float> values(const std::string& fqn) {
    const Array& array = state.array(fqn);
    const float* data = array.data.as<float>();
    return {data, data + array.local_numel()};
  }
  const LiveMesh& mesh;
  Shape shape;
  State state;
  Parameter weight, bias;
  Made optimizer;
  std::unique_ptr<WeightAverage> mean;
};

void expect_near(const std::vector<float>& found, const Json& wanted, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i].get<double>(), tolerance) << what << "[" << i << "]";
}
void on(const Mesh& words, const std::function<void(LiveMesh&)>& run) {
  distributed::local_mesh(static_cast<int>(words.size()), words, run);
}
checkpoint::SaveInfo info(int64_t step) { return {step, Json::object(), "", Json::object()}; }
std::vector<const Array*> arrays_of(const State& state) { return state.arrays(); }

// Nine steps, of which four are passed over; resumed behind step 3 and behind step 6, which were saved.
std::string skipped_run(const std::string& name, const Make& make, const Mesh& words, bool resumed) {
  ScratchFolder folder;
  std::string hash;
  on(words, [&](LiveMesh& mesh) {
    for (int64_t from : resumed ? std::vector<int64_t>{0, 3, 6} : std::vector<int64_t>{0}) {
      Model model(mesh, make, name == "muon_tall");
      Step step = model.compiled();
      model.start();
      if (from > 0) checkpoint::load_latest(folder.path("c"), model.state.arrays(), mesh);
      const int64_t to = resumed ? from + 3 : 9;
      for (int64_t t = from + 1; t <= to; ++t) {
        const bool bad = passed_over(t);
        EXPECT_EQ(step.run(Model::input(t, bad)).applied, !bad);
      }
      if (resumed) checkpoint::save_checkpoint(folder.path("c"), info(to), arrays_of(model.state), mesh, 1);
      const std::string mine = model.hash();
      if (mesh.rank == 0) hash = mine;
      if (words.size() > 1 || to < 9) continue;
      for (const char* fqn : {"weight", "bias"})
        expect_near(model.values(fqn), golden()["skipped"][name][fqn], name.starts_with("muon") ? 2e-5 : 3e-6,
                    name + " " + fqn);
    }
  });
  return hash;
}
TEST(Updates, AsPyTorchBehindStepsThatArePassedOver) {
  for (const auto& [name, make] : kinds()) {
    const std::string alone = skipped_run(name, make, {{1}, {"dp_replicate"}}, false);
    EXPECT_EQ(skipped_run(name, make, {{1}, {"dp_replicate"}}, true), alone) << name;
    EXPECT_EQ(skipped_run(name, make, {{3}, {"dp_shard"}}, true), alone) << name;
  }
}

// What a run without a step that is passed over has: step and update are one number.
TEST(Updates, ARunWithoutThemCountsSteps) {
  on({{1}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    Model model(mesh, made_of<AdamW>(kAdamW));
    Step step = model.compiled();
    model.start();
    for (int64_t t = 1; t <= 4; ++t) {
      const auto now = model.state.scalars(t);
      EXPECT_EQ(now, model.state.scalars(t, model.state.updates_of("optim.weight.exp_avg") + 1));
      EXPECT_EQ(now.at("optim.bias1"), 1 - std::pow(0.8, static_cast<double>(t)));
      step.run(Model::input(t));
    }
    model.state.materialize();  // a run that begins anew
    EXPECT_EQ(model.state.updates_of("optim.weight.exp_avg"), 0);
  });
}

// A checkpoint whose manifest does not say the updates: each of its steps was one.
TEST(Updates, AnOlderCheckpointCountsItsSteps) {
  on({{1}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    ScratchFolder folder;
    Model model(mesh, made_of<AdamW>(kAdamW));
    Step step = model.compiled();
    model.start();
    for (int64_t t = 1; t <= 3; ++t) step.run(Model::input(t, t == 2));
    checkpoint::save_checkpoint(folder.path("c"), info(3), arrays_of(model.state), mesh, 1);
    checkpoint::Manifest manifest = checkpoint::read_manifest(folder.path("c/step-3"));
    EXPECT_EQ(manifest.find("optim.weight.exp_avg")->updates, 2);
    for (auto& tensor : manifest.tensors) tensor.updates = -1;
    std::ofstream(folder.path("c/step-3/manifest.json")) << to_text(manifest);
    checkpoint::load_latest(folder.path("c"), model.state.arrays(), mesh);
    EXPECT_EQ(model.state.updates_of("optim.weight.exp_avg"), 3);
  });
}

// A bias, with moments and an average, that is not in the checkpoint: the rest goes on, and it begins.
TEST(Updates, ATensorThatJoinsCountsItsOwn) {
  for (const auto& [name, make] : std::map<std::string, Make>{{"adamw", made_of<AdamW>(kAdamW)},
                                                              {"adafactor", made_of<Adafactor>(kAdafactor)}})
    for (const Mesh& words : {Mesh{{1}, {"dp_replicate"}}, Mesh{{2}, {"dp_shard"}}})
      on(words, [&](LiveMesh& mesh) {
        ScratchFolder folder;
        const std::string kept = broadcast_text(*mesh.world, folder.path("c"));
        {
          Model before(mesh, make, false, false);
          Step step = before.compiled();
          before.start();
          for (int64_t t = 1; t <= 4; ++t) step.run(Model::input(t));
          checkpoint::save_checkpoint(kept, info(4), arrays_of(before.state), mesh, 1);
        }
        Model model(mesh, make);
        StepsByShape steps(model.state, model.fields(), {6, 1, 0}, model.function(), {});
        model.start();
        checkpoint::LeftOut left;
        checkpoint::load_newest({kept}, model.state.arrays(), mesh, checkpoint::any_storage(), "", &left);
        EXPECT_FALSE(left.of_model.empty());
        EXPECT_FALSE(CountedScalars(steps.first().plan(), model.state).alike());
        const std::vector<Shape> samples{{3, 4}, {3}};
        for (int64_t t = 5; t <= 7; ++t) {
          steps.at(6, samples).run(Model::input(t));
          EXPECT_EQ(model.state.updates_of("ema.bias.average"), t - 4);
          EXPECT_EQ(model.state.updates_of("ema.weight.average"), t);
          const bool first = model.values("ema.bias.average") == model.values("bias");
          EXPECT_EQ(first, t == 5);
        }
        if (words.size() > 1) return;
        for (const char* fqn : {"weight", "bias"})
          expect_near(model.values(fqn), golden()["joined"][name][fqn], 3e-6, name + " joined " + fqn);
      });
}

// One optimizer, two steps that update different tensors of it: each tensor counts its own.
TEST(Updates, StepsThatUpdateOtherTensorsDoNotCountForThem) {
  on({{1}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    const auto expected = [](int64_t i, int64_t salt, const std::vector<int64_t>& steps, double decay) {
      double p = value(i, salt), m = 0, v = 0, t = 0;
      for (int64_t step : steps) {
        const double g = value(i, 10 * salt + step);
        ++t, p *= 1 - 0.02 * decay, m += 0.2 * (g - m), v += 0.1 * (g * g - v);
        p -= 0.02 / (1 - std::pow(0.8, t)) * m / (std::sqrt(v) / std::sqrt(1 - std::pow(0.9, t)) + 1e-6);
      }
      return p;
    };
    Model model(mesh, made_of<AdamW>(kAdamW));
    StepsByShape weight(model.state, model.fields(), {6, 1, 0}, model.function(true, false), {});
    StepsByShape both(model.state, model.fields(), {6, 1, 0}, model.function(), {});
    Step raw = model.compiled();
    model.start();
    const std::vector<Shape> samples{{3, 4}, {3}};
    weight.at(6, samples).run(Model::input(1));
    weight.at(6, samples).run(Model::input(2));
    both.at(6, samples).run(Model::input(3));
    weight.at(6, samples).run(Model::input(4));
    both.at(6, samples).run(Model::input(5));
    EXPECT_EQ(model.state.updates_of("optim.bias.exp_avg"), 2);
    for (int64_t i = 0; i < 12; ++i)
      EXPECT_NEAR(model.values("weight")[static_cast<size_t>(i)], expected(i, 1, {1, 2, 3, 4, 5}, 0.1), 3e-6);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_NEAR(model.values("bias")[static_cast<size_t>(i)], expected(i, 2, {3, 5}, 0), 3e-6);
    try {
      raw.run(Model::input(6));
      ADD_FAILURE() << "one correction was taken for two counts";
    } catch (const UserError& error) {
      EXPECT_EQ(
          std::string(error.what()),
          "[step] step 6: \"optim.bias1\" is of tensors that have had 2 and 5 updates, by another step or "
          "before the run was resumed; compile the step again, after what updated them: it then counts "
          "each separately");
    }
  });
}

TEST(Updates, AnAverageBeginsWithTheFirstUpdateThatIsMade) {
  on({{1}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    Model model(mesh, made_of<Sgd>(SgdOptions{.lr = 0.05}), false, true, 0.999);
    Step step = model.compiled();
    for (int again = 0; again < 2; ++again) {  // the second time as a rewind to the initial weights
      model.start();
      step.run(Model::input(1, true));
      step.run(Model::input(2, true));
      step.run(Model::input(3));
      EXPECT_EQ(model.values("ema.bias.average"), model.values("bias"));
      const float first = model.values("bias")[0];
      step.run(Model::input(4));
      EXPECT_NEAR(model.values("ema.bias.average")[0], 0.999 * first + 0.001 * model.values("bias")[0], 1e-6);
    }
  });
}

// In fp16 the first scales may be too large.
TEST(Updates, AnOverflowOfTheFirstScaleIsNoUpdate) {
  on({{1}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    State state(mesh, 3);
    state.loss_scale({.first = 0x1p40});
    state.compute_dtype(DType::f16);
    const Linear layer(state / "l", 8, 4);
    AdamW adamw(state / "optim", {.lr = 1e-2});
    WeightAverage average(state / "ema", 0.999);
    Step step = compile(state, {{"x", DType::f32, {2, 8}}, {"y", DType::f32, {2, 4}}}, {4, 2, 0},
                        [&](const std::vector<Tensor>& batch) {
                          Loss loss = mse_loss(layer(batch[0]), batch[1]);
                          adamw.update(grad(loss, state.parameters()));
                          average.update(batch[0]);
                          return loss;
                        },
                        {});
    state.materialize();
    int64_t applied = 0, t = 1;
    for (; applied == 0 && t < 60; ++t)
      applied += step.run({t,
                           [](int64_t, int64_t count, const std::vector<void*>& to) {
                             for (int64_t i = 0; i < count * 8; ++i)
                               static_cast<float*>(to[0])[i] = value(i, 4);
                             for (int64_t i = 0; i < count * 4; ++i)
                               static_cast<float*>(to[1])[i] = value(i, 5);
                           }})
                     .applied;
    EXPECT_GT(t, 5) << "no scale was too large";
    EXPECT_EQ(state.updates_of("optim.l.weight.exp_avg"), 1);
    const Array &p = state.array("l.weight"), &ema = state.array("ema.l.weight.average");
    for (int64_t i = 0; i < p.local_numel(); ++i) EXPECT_EQ(p.data.as<float>()[i], ema.data.as<float>()[i]);
  });
}

}  // namespace
}  // namespace lockstep
