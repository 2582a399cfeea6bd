// Runs ranks as threads of this process, with the same rules as an attempt with processes: places, signals,
// logs, and the first failure as the root cause.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/supervise/launch/console.h"
#include "launcher/supervise/run/cause.h"
#include "launcher/worker/worker.h"

namespace lockstep::launcher {

struct InPlace {
  int64_t nproc = 1;
  std::string run_dir, log_dir;  // as in WorkerPlace; without log_dir nothing is written
  std::string device;            // of every rank, from in_place_device
  double grace = 30;             // seconds from a stop request until the process is ended
  std::string when_stopped;      // text for the user about a stop request: "finishing the step and saving"
};
// Runs one rank with its place, its world (within the process) and its hooks. Returns kExitOk or
// kExitStopped.
using RankBody = std::function<int(const WorkerPlace& at, std::shared_ptr<distributed::World> world,
                                   const RunHooks& hooks)>;

// Runs `body` on each rank and returns when all have ended, with exit code and root cause like an attempt
// with processes. Lines of the ranks go to `console` and, with a log_dir, to rank-R.log there, next to
// worker-R.json, progress-R, error-T.json and stopped-R. SIGTERM, SIGINT and SIGHUP ask the ranks to stop. A
// second signal, or the end of the grace period, ends the process with 128 + signal. A rank that still runs
// some seconds after the first failure also ends the process, with that failure's code. Only one call at a
// time, because it captures the process's log lines.
AttemptOutcome run_in_place(const InPlace& options, Console& console, const RankBody& body);

// Prints the cause of a failure, and later failures.
void tell_failure(const AttemptOutcome& outcome, const std::string& log_dir, Console& console);

}  // namespace lockstep::launcher
