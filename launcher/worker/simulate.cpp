// A simulated run: one attempt, without restarts.
#include "launcher/worker/simulate.h"

#include <filesystem>

#include "core/base/error.h"
#include "launcher/worker/ranks_in_place.h"

namespace lockstep::launcher {

int simulate(const RunConfig& config, int64_t nproc, RunFolder& folder, double grace) {
  Console console;
  const std::string run_dir = std::filesystem::absolute(folder.path()).lexically_normal().string();
  const InPlace options{nproc,
                        run_dir,
                        folder.new_attempt(),
                        in_place_device(config, nproc),
                        grace,
                        "finishing the step and saving"};
  AttemptOutcome outcome =
      run_in_place(options, console,
                   [&](const WorkerPlace& at, std::shared_ptr<distributed::World> world,
                       const RunHooks& hooks) { return run_rank(config, at, std::move(world), hooks); });
  if (!outcome.cause.empty()) {
    const bool unused = outcome.exit_code == kExitUser && folder.remove_unused();
    tell_failure(outcome, unused ? "" : options.log_dir, console);
    if (outcome.wrong && outcome.wrong->leave_out)
      console.notice(
          "--simulate leaves no rank out: they are threads of this process; --nproc starts others");
    if (outcome.restartable) console.notice("the same command continues from the last checkpoint");
  } else if (outcome.exit_code == kExitStopped) {
    console.notice(stopped_text(outcome));
  }
  return outcome.exit_code;
}

}  // namespace lockstep::launcher
