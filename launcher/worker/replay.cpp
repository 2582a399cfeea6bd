// Replaying on a rank: load, run up to the step, say what came out.
#include "launcher/worker/replay.h"

#include <optional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/damage.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "launcher/loop/guard.h"
#include "launcher/worker/training.h"

namespace lockstep::launcher {

namespace {
class Replay : Training {
 public:
  Replay(const ReplayTask& task, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
         const RunHooks& hooks)
      : Training(task.config, at, std::move(world), hooks.device), task_(task), hooks_(hooks) {}

  int run(ReplayResult& out) {
    if (task_.evaluate) check_validation();
    check_memory();
    compiler::Step step = compile_training();
    std::unique_ptr<compiler::Step> evaluation = task_.evaluate ? compile_evaluation() : nullptr;
    const int64_t done = load(out);
    logs::info(
        str("replaying ",
            done + 1 < task_.step ? str("steps ", done + 1, " to ", task_.step) : str("step ", task_.step),
            " from ", out.from.empty() ? std::string("the initial weights") : out.from, " on the mesh ",
            text(live_.words)));
    std::optional<ProgressLine> progress;
    if (rank() == 0 && hooks_.progress.columns > 0)
      progress.emplace(hooks_.progress, task_.step, task_.step, pace_unit());
    for (int64_t i = done + 1; i <= task_.step; ++i) {
      hooks_.report_step(i);
      compiler::StepInput fed = input(i, i < task_.step, hooks_.stop_requested());
      guard_.limit(fed);
      auto result = step.run(fed);
      const auto loss = static_cast<float>(result.metrics.at("loss"));
      const auto norm =
          result.metrics.count("grad_norm") ? static_cast<float>(result.metrics.at("grad_norm")) : 0.0f;
      if (guard_.judge(i, loss, norm).action ==
          StepGuard::Action::rewind) {  // as the run did; what it skipped, the step skips
        load(out);
        guard_.went_back(done, i);
      }
      if (progress) progress->update(i, loss, read_in(result));
      if (i < task_.step) {
        if (result.votes > 0) return end(kExitStopped);
        continue;
      }
      out.values["loss"] = number_text(loss);
      if (auto found = result.metrics.find("grad_norm"); found != result.metrics.end())
        out.values["grad_norm"] = number_text(static_cast<float>(found->second));
      out.values["lr"] = number_text(state_.scalars(i).at("optim.lr"));
    }
    if (evaluation)
      out.values["val_loss"] = number_text(static_cast<float>(evaluate(*evaluation, task_.step).at("loss")));
    out.values["state_hash"] = hash_state();
    out.values["certificate"] = step.certificate();
    out.mesh = text(live_.words);
    out.library = target_.library_version();
    out.data = data_->fingerprint();
    return end(kExitOk);
  }

 private:
  int end(int code) {
    world_->finish();
    return code;
  }

  // The step that the loaded checkpoint is of; 0 with initial weights. A damaged checkpoint is named, and the
  // next older one is taken.
  int64_t load(ReplayResult& out) {
    guard_.restore({});
    if (task_.checkpoints.empty()) {
      start_state();
      return 0;
    }
    std::string damage;
    for (const auto& folder : task_.checkpoints) try {
        if (is_import(folder)) {
          load_import(folder);
          out.from = folder;
          return 0;
        }
        const auto loaded = checkpoint::load_checkpoint(folder, state_.arrays(), live_);
        if (loaded.extra.contains("guard")) guard_.restore(loaded.extra["guard"]);
        out.from = folder;
        return loaded.step;
      } catch (const checkpoint::DamagedError& error) {
        if (rank() == 0) logs::warn(str(folder, " is damaged: ", error.what()));
        damage += str("\n  ", error.what());
      }
    throw UserError(str("no checkpoint before step ", task_.step, " is whole:", damage,
                        "\n  --from-start reruns the steps from the initial weights"));
  }

  const ReplayTask& task_;
  const RunHooks& hooks_;
  StepGuard guard_{config_.train};
};
}  // namespace

int replay_rank(const ReplayTask& task, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
                const RunHooks& hooks, ReplayResult& result) {
  return Replay(task, at, std::move(world), hooks).run(result);
}

}  // namespace lockstep::launcher
