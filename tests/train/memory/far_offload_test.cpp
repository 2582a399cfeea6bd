// Moments on the host of a device whose memory the host does not address, in one process: steps with them
// there and without on one state, gates that are closed, a state that goes back, and the check of the host's
// memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "compiler/codegen/plugin.h"
#include "compiler/compile/compile.h"
#include "compiler/compile/plan_observer.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/functions/functions.h"
#include "core/nn/layers.h"
#include "core/optim/adamw.h"
#include "distributed/mesh/device_mesh.h"
#include "launcher/api/memory_check.h"
#include "tests/support/scratch_folder.h"

extern "C" const lockstep::compiler::Plugin* lockstep_backend();  // of examples/far_device

namespace lockstep {

using namespace compiler;

namespace {

const Target& far_target() { return lockstep_backend()->open(0, 1); }

// A model, its state, and two steps of it: with moments on the host, and without.
class Training {
 public:
  explicit Training(const Target& target, DType compute = DType::f32)
      : target_(target), mesh_(on(target)), state_(made(compute)) {}

  State& state() { return *state_; }
  void compile(bool away) {
    CompileOptions options;
    options.target = &target_;
    options.offload_moments = away;
    if (state_->compute_dtype() != DType::f32)
      options.precision = state_->compute_dtype() == DType::f16 ? "fp16" : "bf16";
    steps_[away].emplace(lockstep::compiler::compile(
        *state_, {{"x", DType::f32, {2, kIn}}, {"y", DType::f32, {2, 3}}}, {8, 2, 0},
        [this](const std::vector<Tensor>& batch) {
          Loss loss = mse_loss((*head_)(tanh((*in_)(batch[0]))), batch[1]);
          adamw_->update(grad(loss, state_->parameters()));
          return loss;
        },
        options));
    // What is freed is taken by others.
    for (const Array* array : std::as_const(*state_).arrays())
      for (int i = 0; away && i < 2; ++i)
        others_.emplace_back(array->local_bytes(), target_.device().memory());
    if (!started_) state_->materialize();
    started_ = true;
  }
  // `closed`: no loss is small enough for its update.
  void run(bool away, bool closed = false, bool poisoned = false) {
    if (!steps_[away]) compile(away);
    StepInput input = fed(++done_, poisoned);
    if (closed) input.loss_limit = 1e-20f;
    const StepResult result = steps_[away]->run(input);
    EXPECT_EQ(result.applied, !closed && !poisoned) << "step " << done_;
    losses_.push_back(number_text(static_cast<float>(result.metrics.at("loss"))));
  }
  std::vector<uint64_t> recomputed(bool away) { return steps_[away]->recompute(fed(done_, false), 1); }
  void save(const std::string& folder) {
    checkpoint::save_checkpoint(folder, {done_, Json::object(), "", Json::object()},
                                std::as_const(*state_).arrays(), mesh_, 0);
  }
  void go_back(const std::string& folder) {
    done_ = checkpoint::load_latest(folder, state_->arrays(), mesh_)->step;
  }
  std::vector<std::string> made() {
    std::vector<std::string> out = losses_;
    out.push_back(state_hash(std::as_const(*state_).arrays(), mesh_));
    return out;
  }

 private:
  static constexpr int64_t kIn = 24;
  static LiveMesh on(const Target& target) {
    LiveMesh mesh = solo_mesh();
    distributed::join_device(mesh, target.device());
    return mesh;
  }
  std::unique_ptr<State> made(DType compute) {
    auto state = std::make_unique<State>(mesh_, 3);
    state->compute_dtype(compute);
    in_.emplace(*state / "in", kIn, 64), head_.emplace(*state / "head", 64, 3);
    adamw_.emplace(*state / "optim", AdamWOptions{.lr = 1e-2, .clip = 1});
    return state;
  }
  static StepInput fed(int64_t step, bool poisoned) {
    return {step, [=](int64_t first, int64_t count, const std::vector<void*>& to) {
              for (size_t f = 0; f < 2; ++f) {
                const int64_t each = f == 0 ? kIn : 3;
                for (int64_t e = 0; e < count * each; ++e)
                  static_cast<float*>(to[f])[e] = philox::uniform(philox::bits(
                      5, f, static_cast<uint64_t>(step), static_cast<uint64_t>(first * each + e)));
                if (poisoned && f == 1 && first == 0) static_cast<float*>(to[f])[0] = 1e30f;
              }
            }};
  }

  const Target& target_;
  LiveMesh mesh_;
  std::optional<Linear> in_, head_;
  std::optional<AdamW> adamw_;
  std::unique_ptr<State> state_;
  std::vector<Buffer> others_;
  std::optional<Step> steps_[2];
  bool started_ = false;
  int64_t done_ = 0;
  std::vector<std::string> losses_;
};

// A step that was captured before the moments went to the host writes them where they are now.
TEST(FarOffload, StepsWithAndWithoutItShareAState) {
  Training home(cpu_target()), away(far_target());
  std::vector<std::vector<uint64_t>> sums[2];
  for (const bool moved : {false, false, false, true, true, false, false, false, true, false}) {
    home.run(false), away.run(moved);
    sums[0].push_back(home.recomputed(false)), sums[1].push_back(away.recomputed(false));
  }
  EXPECT_EQ(away.made(), home.made());
  EXPECT_EQ(sums[1], sums[0]);
}

TEST(FarOffload, ClosedGatesLeaveMomentsAsTheyWere) {
  for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
    Training home(cpu_target(), compute), away(far_target(), compute);
    for (int step = 1; step <= 6; ++step) {
      const bool closed = step == 2 || step == 5, poisoned = compute == DType::f16 && step == 4;
      home.run(false, closed, poisoned), away.run(true, closed, poisoned);
    }
    EXPECT_EQ(away.made(), home.made()) << name(compute);
  }
}

TEST(FarOffload, AStateThatGoesBackGoesOnAlike) {
  const ScratchFolder scratch;
  Training home(cpu_target(), DType::f16), away(far_target(), DType::f16);
  int folder = 0;
  for (Training* one : {&home, &away}) {
    const std::string at = scratch.path(str(folder++));
    const bool moved = one == &away;
    for (int step = 1; step <= 3; ++step) one->run(moved);
    one->save(at);
    one->run(moved), one->run(moved, true);
    one->go_back(at);
    for (int step = 4; step <= 6; ++step) one->run(moved);
  }
  EXPECT_EQ(away.made(), home.made());
}

// A loop of one's own: moments that are on the device already are to be taken by the host, too.
TEST(FarOffload, WhatTheHostIsToTakeIsAskedForOnce) {
  const char* memory = "LOCKSTEP_MEMORY";
  setenv(memory, "1KiB", 1);
  set_plan_observer(MemoryCheck(launcher::WorkerPlace{}, far_target()));
  Training training(far_target());
  training.run(false);
  std::string said;
  try {
    training.compile(true);
  } catch (const UserError& error) { said = error.what(); }
  // Of 24 x 64 + 64 + 64 x 3 + 3 weights, twice, in fp32.
  EXPECT_EQ(
      said,
      "the program keeps its moments on the host (offload_moments), and they do not fit there: its rank "
      "has 14.02 KiB; there are 1.00 KiB (LOCKSTEP_MEMORY). Take more hosts, moments bf16, or "
      "offload_moments false");
  setenv(memory, "1GiB", 1);
  training.run(true);
  setenv(memory, "1KiB", 1);
  EXPECT_NO_THROW(training.compile(true)) << "they lie there";
  set_plan_observer({});
  unsetenv(memory);
}

}  // namespace
}  // namespace lockstep
