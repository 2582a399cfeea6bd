// Ranks as threads of this process, under the rules of an attempt of processes: one place each, signals,
// logs, the first failure as the root cause.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/supervise/cause.h"
#include "launcher/supervise/console.h"
#include "launcher/worker/worker.h"

namespace lockstep::launcher {

struct InPlace {
  int64_t nproc = 1;
  std::string run_dir, log_dir;  // as of a WorkerPlace; no log_dir: nothing is written
  std::string device;            // of every rank, from in_place_device
  double grace = 30;             // seconds from a stop request until the process is ended
  std::string when_stopped;      // what a stop request does, for the user: "finishing the step and saving"
};
// A rank: its place, its world (one of the process), its hooks. Returns kExitOk or kExitStopped.
using RankBody = std::function<int(const WorkerPlace& at, std::shared_ptr<distributed::World> world,
                                   const RunHooks& hooks)>;

// Runs `body` on each rank and returns when all have ended, with the exit code and the root cause as of an
// attempt of processes. Lines of the ranks go to `console` and, with a log_dir, to rank-R.log there, beside
// worker-R.json, progress-R, error-T.json and stopped-R. SIGTERM, SIGINT and SIGHUP ask the ranks to stop. A
// second one, or the end of the grace, ends the process with 128 + signal; so does a rank that is not gone
// some seconds after the first failure, with the code of that. Once at a time: it takes the process's log
// lines.
AttemptOutcome run_in_place(const InPlace& options, Console& console, const RankBody& body);

// Tells the cause of a failure, and what followed it.
void tell_failure(const AttemptOutcome& outcome, const std::string& log_dir, Console& console);

}  // namespace lockstep::launcher
