// The loop around attempts.
#include "launcher/supervise/supervisor.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "core/base/private_file.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/host_agent.h"
#include "launcher/supervise/hosts_attempt.h"
#include "launcher/supervise/memory_folder.h"

namespace lockstep::launcher {

int64_t next_nproc(const LaunchOptions& options, int64_t nproc, int64_t dead) {
  if (options.min_nproc <= 0) return nproc;
  return std::max(std::min(options.min_nproc, nproc), nproc - dead);
}

double restart_delay(const LaunchOptions& options, int64_t fruitless) {
  if (!options.restart_delay && !options.hosts.several() && fruitless-- == 0) return 0;
  double delay = options.restart_delay.value_or(0.5);
  const double most = std::max(30.0, delay);
  for (int64_t i = 0; i < fruitless && delay < most; ++i) delay *= 2;
  return std::min(delay, most);
}

bool Progress::advance(int64_t furthest_step, int64_t newest_checkpoint) {
  const bool further = furthest_step > step || newest_checkpoint > checkpoint;
  step = std::max(step, furthest_step), checkpoint = std::max(checkpoint, newest_checkpoint);
  return further;
}

int64_t newest_checkpoint(const std::string& run_dir) { return newest_step_in(run_dir + "/ckpt"); }

namespace {
// The hosts of the next attempt. Hosts that were lost are left out where fewer ranks will do.
LaunchHosts next_hosts(const LaunchOptions& options, const AttemptFacts& facts,
                       const AttemptOutcome& outcome) {
  if (options.min_nproc <= 0) return options.hosts;
  LaunchHosts out = options.hosts.without(facts.lost_hosts, outcome.dead);
  return out.ranks() >= options.min_nproc ? out : options.hosts;
}

std::string ranks_text(int64_t n) { return str(n, n == 1 ? " rank" : " ranks"); }

// What a restart goes on from.
std::string newest_text(const std::string& memory_dir, int64_t on_disk) {
  const int64_t kept = memory_dir.empty() ? -1 : newest_step_in(memory_dir);
  return kept > on_disk ? str("from memory (step ", kept, ")") : "from the last checkpoint";
}

// Sleeps, unless the user asks to stop. True when the time is over.
bool wait_unless_stopped(double seconds) {
  auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
    if (signals_seen() > 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}
}  // namespace

int supervise(const LaunchOptions& asked, const RunFolder& folder) {
  LaunchOptions options = asked;
  Console console;
  install_signals();
  int64_t nproc = options.nproc, fruitless = 0;
  Progress progress{-1, newest_checkpoint(folder.path())};
  std::string first_cause;
  for (int64_t restart = 0;; ++restart) {
    if (options.hosts.reach == Reach::agents) await_agents(options, folder.path(), console);
    const std::string log_dir = folder.new_attempt();
    const auto command = launch_command(options, nproc, folder.path(), log_dir, restart, console.columns());
    const AttemptFacts facts = options.hosts.several()
                                   ? run_hosts_attempt(command, log_dir, options.grace, console)
                                   : run_attempt(command, log_dir, options.grace, console);
    const AttemptOutcome outcome = diagnose(facts);
    if (outcome.cause.empty()) {
      if (outcome.exit_code == kExitStopped)
        console.notice(str("stopped on request, saved; the same command continues the run"));
      return outcome.exit_code;
    }
    console.notice(str("root cause: ", outcome.cause));
    append_private(log_dir + "/launcher.log", str("root cause: ", outcome.cause, "\n"));
    for (const auto& line : outcome.others) console.notice(str("  then ", line));
    // A mistake in a config that is found before step 1 is told whole: nothing is left of it.
    if (outcome.exit_code != kExitUser || !options.heeds_stop || !folder.remove_unused())
      console.notice(str("logs: ", log_dir));
    if (restart == 0) first_cause = outcome.cause;
    const bool further = progress.advance(facts.furthest_step, newest_checkpoint(folder.path()));
    fruitless = further || restart == 0 ? 0 : fruitless + 1;
    bool again = outcome.restartable && restart < options.max_restarts && signals_seen() == 0;
    if (again) {
      int64_t next = next_nproc(options, nproc, static_cast<int64_t>(outcome.dead.size()));
      if (options.hosts.several()) {
        options.hosts = next_hosts(options, facts, outcome);
        next = options.hosts.ranks();
      }
      const double delay = restart_delay(options, fruitless);
      console.notice(str("restart ", restart + 1, " of ", options.max_restarts,
                         delay > 0 ? str(" in ", number_text(delay), " s, ") : " at once, ",
                         newest_text(options.memory_dir, progress.checkpoint), ", with ", ranks_text(next),
                         next < nproc ? str(" (", nproc, " before)") : ""));
      nproc = next;
      again = wait_unless_stopped(delay);
    }
    if (again) continue;
    if (restart > 0) {
      console.notice(str("gave up after ", restart, restart == 1 ? " restart" : " restarts",
                         first_cause == outcome.cause ? "" : str("; the first failure was: ", first_cause)));
    } else if (outcome.restartable && options.max_restarts == 0 && signals_seen() == 0) {
      console.notice(
          "the same command continues from the last checkpoint; --max-restarts N does so by itself");
    }
    return outcome.exit_code;
  }
}

}  // namespace lockstep::launcher
