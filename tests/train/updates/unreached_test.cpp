// What a step leaves alone: weights that no loss reaches, which are named once; and what it does where the
// state has no values, or nothing is updated.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "compiler/compile/compile.h"
#include "compiler/compile/steps_by_shape.h"
#include "core/base/log.h"
#include "core/nn/layers.h"
#include "core/optim/adamw.h"
#include "core/optim/clip.h"
#include "core/optim/unreached.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

using namespace compiler;

float value(int64_t i, int64_t salt) { return static_cast<float>((i * 37 + salt * 101) % 97 - 48) / 64.0f; }
void on(const Mesh& words, const std::function<void(LiveMesh&)>& run) {
  distributed::local_mesh(static_cast<int>(words.size()), words, run);
}
std::vector<const Array*> arrays_of(const State& state) { return state.arrays(); }
// Six inputs and three targets a sample.
StepInput input(int64_t t) {
  return {t, [](int64_t, int64_t count, const std::vector<void*>& to) {
            for (int64_t i = 0; i < count * 6; ++i) static_cast<float*>(to[0])[i] = value(i, 4);
            for (int64_t i = 0; i < count * 3; ++i) static_cast<float*>(to[1])[i] = value(i, 5);
          }};
}
const std::vector<BatchField> kFields{{"x", DType::f32, {2, 6}}, {"y", DType::f32, {2, 3}}};

// Lines of the log while it lives.
struct Heard {
  Heard() {
    logs::set_sink([this](int, const std::string& line) {
      const std::lock_guard<std::mutex> hold(guard);
      lines.push_back(line);
    });
  }
  ~Heard() { logs::set_sink({}); }
  size_t count(const std::string& words) const {
    return static_cast<size_t>(
        std::count_if(lines.begin(), lines.end(), [&](const auto& l) { return l.find(words) != l.npos; }));
  }
  std::mutex guard;
  std::vector<std::string> lines;
};

TEST(Unreached, WeightsAreNamedOnceAndLeftAlone) {
  Heard heard;
  on({{2}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    State state(mesh, 1);
    const Linear used(state / "used", 6, 3), apart(state / "apart", 6, 3), behind(state / "behind", 6, 3),
        gated(state / "gated", 6, 3), frozen(state / "frozen", 6, 3);
    state.freeze({"frozen"});
    AdamW adamw(state / "optim", {.lr = 0.05, .weight_decay = 0.5});
    StepsByShape steps(
        state, kFields, {4, 2, 0},
        [&](const std::vector<Tensor>& batch) {
          const Tensor x = batch[0], gate = full(x, {2, 3}, 0, DType::f32);
          Loss loss = mse_loss(used(x) + stop_gradient(behind(x)) + gated(x) * gate, batch[1]);
          const Gradients all = grad(loss, state.parameters());
          const std::set<std::string> none{"apart.weight", "apart.bias", "behind.weight", "behind.bias"};
          EXPECT_EQ(unreached(all), none);
          // As somebody scales them, and adds those of another loss, which reads one of these.
          Gradients scaled = all, added = all;
          const Gradients other = grad(mse_loss(apart(x), batch[1]), state.parameters());
          const Tensor norm = global_norm(all);
          for (size_t i = 0; i < all.values.size(); ++i) {
            scaled.values[i] = all.values[i] * broadcast_to(norm, all.values[i].shape());
            added.values[i] = all.values[i] + other.values[i];
          }
          EXPECT_EQ(unreached(scaled), none);
          EXPECT_EQ(unreached(added), (std::set<std::string>{"behind.weight", "behind.bias"}));
          const Loss two = mse_loss(used(x), batch[1]) + mse_loss(apart(x), batch[1]);
          EXPECT_EQ(unreached(grad(two, state.parameters())),
                    (std::set<std::string>{"behind.weight", "behind.bias", "gated.weight", "gated.bias"}));
          adamw.update(all);
          return loss;
        },
        {});
    state.materialize();
    std::map<std::string, std::vector<float>> before;
    for (const Array* array : arrays_of(state))
      before[array->fqn] = {array->data.as<float>(), array->data.as<float>() + array->local_numel()};
    for (int64_t t = 1; t <= 3; ++t) {
      const int64_t samples = t < 3 ? 4 : 8;  // another shape is traced for itself
      steps.at(samples, {{6}, {3}}).run(input(t));
    }
    for (const Array* array : arrays_of(state)) {
      const std::vector<float> now(array->data.as<float>(), array->data.as<float>() + array->local_numel());
      const bool alone = array->fqn.find("apart") != std::string::npos ||
                         array->fqn.find("behind") != std::string::npos ||
                         array->fqn.find("frozen") != std::string::npos;
      // A gate of zeros lets a gradient of zeros through: weight decay goes on, and its moments are zeros.
      const bool of_zeros = array->fqn.starts_with("optim.gated") || array->fqn == "gated.bias";
      EXPECT_EQ(now == before[array->fqn], alone || of_zeros) << array->fqn;
    }
  });
  EXPECT_EQ(heard.count("the loss does not reach"), 1u);
  EXPECT_EQ(
      heard.count("the loss does not reach apart.bias, apart.weight, behind.bias, behind.weight: they have "
                  "no gradient, and stay as they are (no decay, no moments); read them in what the loss is "
                  "made of, or freeze them"),
      1u);
  EXPECT_EQ(heard.count("frozen"), 0u);
}

// The bits of the others are those of a state without them.
TEST(Unreached, OthersTrainAsWithoutThem) {
  const auto run = [](bool with) {
    std::vector<float> out;
    on({{1}, {"dp_replicate"}}, [&](LiveMesh& mesh) {
      State state(mesh, 1);
      const Linear used(state / "used", 6, 3);
      std::optional<Linear> apart;
      if (with) apart.emplace(state / "apart", 6, 3);
      AdamW adamw(state / "optim", {.lr = 0.05, .weight_decay = 0.5, .clip = 0.1});
      Step step = compile(state, kFields, {4, 2, 0},
                          [&](const std::vector<Tensor>& batch) {
                            Loss loss = mse_loss(used(batch[0]), batch[1]);
                            adamw.update(grad(loss, state.parameters()));
                            return loss;
                          },
                          {});
      state.materialize();
      for (int64_t t = 1; t <= 3; ++t) step.run(input(t));
      const Array& array = state.array("used.weight");
      out.assign(array.data.as<float>(), array.data.as<float>() + array.local_numel());
    });
    return out;
  };
  EXPECT_EQ(run(true), run(false));
}

// A step that is called before the state has values draws them, as materialize() does.
TEST(Values, TheFirstCallOfAStepDrawsThem) {
  for (const Mesh& words : {Mesh{{1}, {"dp_replicate"}}, Mesh{{2}, {"dp_shard"}}}) {
    std::set<std::string> hashes;
    for (bool asked : {true, false})
      on(words, [&](LiveMesh& mesh) {
        State state(mesh, 1);
        const Linear in(state / "in", 6, 5), out(state / "out", 5, 3);
        AdamW adamw(state / "optim", {.lr = 0.05});
        Step step = compile(state, kFields, {4, 2, 0},
                            [&](const std::vector<Tensor>& batch) {
                              Loss loss = mse_loss(out(tanh(in(batch[0]))), batch[1]);
                              adamw.update(grad(loss, state.parameters()));
                              return loss;
                            },
                            {});
        EXPECT_FALSE(state.has_values());
        if (asked) state.materialize();
        step.run(input(1));
        EXPECT_TRUE(state.has_values());
        const std::string hash = state_hash(arrays_of(state), mesh);
        if (mesh.rank == 0) hashes.insert(hash);
      });
    EXPECT_EQ(hashes.size(), 1u) << text(words);
  }
}

// Values of a part of the state are no values of it: the rest is drawn, and the part stays.
TEST(Values, WhatHasNoneIsDrawnBesideWhatIsWritten) {
  Heard heard;
  on({{2}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    State drawn(mesh, 1), state(mesh, 1);
    for (State* each : {&drawn, &state}) {
      each->root().parameter("one", {5}, init::normal(0.5));
      each->root().parameter("two", {5}, init::normal(0.5));
      each->root().parameter("three", {5}, init::normal(0.5));
      each->root().parameter("bias", {5}, init::zeros());
    }
    const auto values = [](State& of, const char* name) {
      const Array& array = of.array(name);
      return std::vector<float>(array.data.as<float>(), array.data.as<float>() + array.local_numel());
    };
    drawn.materialize();
    state.allocate();
    EXPECT_FALSE(state.has_values());
    state.array("one").host_wrote();  // zeros, as a program writes them
    const std::vector<float> given{1, 2, 3, 4, 5};
    state.set("two", given.data(), DType::f32, {5});
    EXPECT_EQ(values(state, "two").size(), values(drawn, "two").size());
    EXPECT_FALSE(state.has_values());
    state.start();
    EXPECT_TRUE(state.has_values());
    EXPECT_EQ(values(state, "one"), std::vector<float>(values(drawn, "one").size()));
    EXPECT_EQ(values(state, "three"), values(drawn, "three"));
    EXPECT_NE(values(state, "two"), values(drawn, "two"));
    State whole(mesh, 1);  // what starts as zeros needs no writer
    whole.root().parameter("one", {5}, init::normal(0.5));
    whole.root().parameter("bias", {5}, init::zeros());
    whole.allocate();
    whole.array("one").host_wrote();
    EXPECT_TRUE(whole.has_values());
  });
  EXPECT_GE(
      heard.count("2 of the 4 tensors of the state have no values yet: their initial values are drawn, of "
                  "seed 1"),
      1u);
}

// Of values that are set again, or that others overwrite whole, nothing is kept.
TEST(Values, ThoseThatAreOverwrittenAreLetGo) {
  State state(solo_mesh(), 1);
  constexpr int64_t kMany = int64_t{1} << 20;
  state.root().parameter("w", {kMany}, init::zeros());
  state.root().parameter("b", {2}, init::zeros());
  std::vector<float> values(kMany);
  const auto held = [] {
    const auto now = mallinfo2();
    return now.uordblks + now.hblkhd;
  };
  const auto set = [&](float value) {
    std::fill(values.begin(), values.end(), value);
    state.set("w", values.data(), DType::f32, {kMany});
  };
  state.materialize();
  const size_t without = held();
  for (int i = 1; i <= 8; ++i) set(static_cast<float>(i));
  EXPECT_LT(held(), without + 2 * values.size() * sizeof(float));
  state.materialize();
  EXPECT_EQ(state.array("w").data.as<float>()[0], 8);

  const auto apart = std::make_shared<int>(), both = std::make_shared<int>();
  state.start_with([apart](State&) {}, {"b"});
  state.start_with([both](State& to) { to.array("w").data.as<float>()[0] = 3; }, {"w", "b"});
  EXPECT_EQ(apart.use_count(), 1);
  EXPECT_LT(held(), without + values.size());  // those of set() are overwritten, too
  set(9);
  EXPECT_EQ(both.use_count(), 2);  // the others of it are still its own
  state.materialize();
  EXPECT_EQ(state.array("w").data.as<float>()[0], 9);
}

TEST(Values, AStepWithoutUpdatesIsNamed) {
  Heard heard;
  on({{1}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    State state(mesh, 1);
    const Linear layer(state / "l", 6, 3);
    const Step step =
        compile(state, kFields, {4, 2, 0},
                [&](const std::vector<Tensor>& batch) { return mse_loss(layer(batch[0]), batch[1]); }, {});
    tell_no_update(step, state);
  });
  EXPECT_EQ(
      heard.count("[step] the step updates nothing: it measures, and no weight learns; call the optimizer's "
                  "update(grad(loss, state.parameters())) in it, or assign()"),
      1u);
}

}  // namespace
}  // namespace lockstep
