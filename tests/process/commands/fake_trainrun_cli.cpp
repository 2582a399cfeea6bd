// The whole command line with a loop that trains nothing: run_worker writes one file per rank and takes
// train.steps short steps.
#include <chrono>
#include <fstream>
#include <iostream>
#include <thread>

#include "core/base/error.h"
#include "launcher/cli/commands.h"
#include "launcher/report/progress.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/worker/side.h"
#include "launcher/worker/replay.h"
#include "launcher/worker/simulate.h"
#include "launcher/worker/worker.h"

namespace lockstep::launcher {

int run_worker(const RunConfig& config, const WorkerPlace& at) {
  std::ofstream(str(at.run_dir, "/seen-", at.rank)) << config.optim.lr << " of " << at.world_size << "\n";
  if (at.rank == 0) write_whole(at.run_dir + "/config.json", config_text(config));
  ProgressLine progress(terminal_fd(), at.rank == 0 ? terminal_columns() : 0, config.train.steps,
                        config.log.every);
  for (int64_t step = 1; step <= config.train.steps; ++step) {
    report_step(step);
    if (at.rank == 0) progress.update(step, 1.0, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (stop_requested()) return kExitStopped;
  }
  return kExitOk;
}

int run_worker(const std::string& config_file, const std::vector<Override>& overrides,
               const WorkerPlace& at) {
  return run_worker(load_config(config_file, overrides), at);
}
int simulate(const RunConfig& config, int64_t nproc, RunFolder& folder, double grace) {
  std::cout << "simulate " << config.name << " on " << nproc << " in " << folder.path() << ", grace " << grace
            << "\n";
  return kExitOk;
}
int run_replay(const ConfigReplay&, const ReplayPlace&, ReplayResult&) { return kExitInternal; }
int replay_worker(const std::string&, const WorkerPlace&) { return kExitInternal; }

namespace cli {
int plan(const PlanArguments& arguments, std::ostream& out) {
  out << "plan of " << arguments.config.name << " on " << arguments.nproc << "\n";
  return kExitOk;
}
int generate(const GenerateArguments& arguments, std::ostream& out) {
  out << arguments.path << "|" << arguments.prompt << "|" << arguments.tokens << "|" << arguments.temperature
      << "|" << arguments.top_k << "|" << arguments.seed << "\n";
  return kExitOk;
}
}  // namespace cli
}  // namespace lockstep::launcher

int main(int argc, char** argv) {
  return lockstep::launcher::cli::trainrun({argv + 1, argv + argc}, std::cout, std::cerr);
}
