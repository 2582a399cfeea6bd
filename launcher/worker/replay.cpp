// Replays a step of a config's run.
#include "launcher/worker/replay.h"

#include "launcher/data/tokenizer/stop.h"
#include "launcher/worker/training.h"

namespace lockstep::launcher {

namespace {
// Checks only the data that the replay reads.
class ReplayedTraining : public Training {
 public:
  ReplayedTraining(const ConfigReplay& asked, const WorkerPlace& at,
                   std::shared_ptr<distributed::World> world, const std::string& device)
      : Training(asked.config, at, std::move(world), device), evaluates_(asked.task.evaluate) {}
  void check() override {
    const bool evaluates = evaluates_ || follows_validations();
    if (evaluates) check_validation();
    check_memory(evaluates);
  }
  std::string fingerprint() const { return data_->fingerprint(); }

 private:
  bool evaluates_;
};
}  // namespace

int replay_rank(const ConfigReplay& asked, const WorkerPlace& at, std::shared_ptr<distributed::World> world,
                const RunHooks& hooks, ReplayResult& result) {
  int code = kExitStopped;
  try {
    ReplayedTraining training(asked, at, world, hooks.device);
    training.check();
    code = replay(asked.config, training, hooks, asked.task, result);
    result.data = training.fingerprint();
  } catch (const data::Stopped&) {}  // NOLINT(bugprone-empty-catch): the code says so
  world->finish();
  return code;
}

}  // namespace lockstep::launcher
