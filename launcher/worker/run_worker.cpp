// Runs the training of a config: its workload in the training loop.
#include "core/base/log.h"
#include "core/mesh/together.h"
#include "distributed/open_world.h"
#include "launcher/config/stored.h"
#include "launcher/data/tokenizer/stop.h"
#include "launcher/supervise/worker/side.h"
#include "launcher/worker/training.h"
#include "launcher/worker/worker.h"

namespace lockstep::launcher {

using namespace distributed;

RunHooks process_hooks(const RunConfig& config) {
  data::stop_reading_when(stop_requested);
  return {stop_requested,      report_step, progress_output(terminal_fd(), terminal_columns()),
          config.train.device, {},          regroup_requested,
          stop_of_any_rank};
}

namespace {
int train(const RunConfig& config, const WorkerPlace& at, const std::shared_ptr<World>& world,
          const RunHooks& hooks) {
  Training training(config, at, world, hooks.device);
  set_deadlines({config.watch.deadline, config.watch.start_deadline});
  const std::string run_dir = at.run_dir.empty() ? "runs/" + config.name : at.run_dir;
  const auto outcome = TrainingLoop(config, training, at, hooks, run_dir).run();
  world->finish();
  return outcome.stopped ? kExitStopped : kExitOk;
}
}  // namespace

int run_rank(const RunConfig& config, const WorkerPlace& at, std::shared_ptr<World> world,
             const RunHooks& hooks) {
  try {
    return train(config, at, world, hooks);
  } catch (const data::Stopped& stopped) {
    if (at.rank == 0) logs::info(str(stopped.what(), ", before the first step: there is nothing to save"));
  }
  world->finish();
  return kExitStopped;
}

int run_worker(const RunConfig& config, const WorkerPlace& at) {
  return run_rank(config, at, open_world(), process_hooks(config));
}

int run_worker(const std::string& config_file, const std::vector<Override>& overrides,
               const WorkerPlace& at) {
  auto world = open_world();
  const RunConfig config = together(*world->group(), [&] {
    RunConfig out = load_config(config_file, overrides);
    refuse_stored_plugin(out, config_file, stored_in(config_file), overrides,
                         "trainrun worker " + config_file);
    return out;
  });
  return run_rank(config, at, world, process_hooks(config));
}

}  // namespace lockstep::launcher
