// train(): runs the training loop for a program.
#include "launcher/api/train.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/log.h"
#include "distributed/watch/flight_record.h"
#include "launcher/api/function_workload.h"
#include "launcher/api/micro_batch.h"
#include "launcher/api/option_words.h"
#include "launcher/api/replayed_run.h"
#include "launcher/api/train_config.h"
#include "launcher/config/stored.h"
#include "launcher/loop/training_loop.h"
#include "launcher/report/metrics.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/worker/side.h"
#include "launcher/trainer/options.h"

namespace lockstep {

namespace {
void tell_state(int64_t step, const std::string& hash) {
  std::printf("step %lld: state %s\n", static_cast<long long>(step), hash.c_str());
  std::fflush(stdout);
}

// trainrun names a program's log folder after the program or --name, before the program chooses its own
// folder.
void tell_folders(const launcher::WorkerPlace& place, const std::string& run) {
  std::error_code failed;
  const std::filesystem::path there = std::filesystem::weakly_canonical(run, failed), logs = place.run_dir;
  if (place.run_dir.empty() || place.rank != 0 || there == logs) return;
  const std::string name = there.filename();
  logs::info(str("logs are in ", std::filesystem::relative(logs, failed).string(),
                 ", all else of the run is in ", run,
                 there.parent_path() == logs.parent_path()
                     ? str("; one folder for both: trainrun --name=", name, " before the program")
                     : ""));
}
// On every rank, before any file is written.
void refuse_foreign_files(const std::string& run) {
  launcher::refuse_linked_run(run);
  launcher::refuse_foreign_metrics(run + "/metrics.jsonl");
  launcher::refuse_foreign_words(run, {"run.at", "logs.at", "ckpt.at", "program.json"},
                                 "give the run a folder of its own: run=\"runs/NAME\"");
}
}  // namespace

std::string train(Session& session, State& state, const SampleData& data,
                  const compiler::StepFunction& function, const TrainOptions& given) {
  compare_options(session, given);
  refuse_no_folder("[train] run", given.run);
  if (!replaying()) refuse_foreign_files(given.run);
  const TrainOptions options = with_micro_batch(session, state, data, function, given);
  const launcher::RunConfig config = config_of(options, session, state);
  // The program's own choice of float8 options is kept.
  if (config.train.precision != launcher::precision_of(state)) launcher::set_precision(state, config);
  FunctionWorkload work(session, state, data, function, options, config.train.precision);
  if (session.planned()) work.plan(*session.planned());
  const launcher::WorkerPlace place = launcher::worker_place();
  // Without trainrun, the program's own output would appear in the middle of the rewritten line.
  const int columns = place.supervised() ? launcher::terminal_columns() : 0;
  launcher::RunHooks hooks{launcher::stop_requested, launcher::report_step,
                           launcher::progress_output(launcher::terminal_fd(), columns), ""};
  hooks.progress.exact = true;
  hooks.report_state = tell_state;
  hooks.regroup_requested = launcher::regroup_requested;
  hooks.stop_of_any_rank = launcher::stop_of_any_rank;
  tell_folders(place, options.run);
  distributed::enter_pace(Pace::start);
  if (replaying()) return replay_instead(session, config, work, hooks, options.run);
  auto outcome = launcher::TrainingLoop(config, work, place, hooks, options.run).run();
  if (outcome.state_hash.empty()) {  // there was nothing to do
    outcome.state_hash = work.hash_state();
    if (session.rank() == 0) tell_state(outcome.step, outcome.state_hash);
  }
  if (outcome.stopped && !options.return_when_stopped) session.leave(kExitStopped);
  return outcome.state_hash;
}

}  // namespace lockstep
