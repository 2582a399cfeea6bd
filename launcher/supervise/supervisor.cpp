// The supervisor: runs attempts in a loop and decides what follows each.
#include "launcher/supervise/supervisor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include "core/base/error.h"
#include "core/base/steady_seconds.h"
#include "core/files/private_file.h"
#include "launcher/supervise/folders/memory.h"
#include "launcher/supervise/hosts/agent.h"
#include "launcher/supervise/hosts/attempt.h"
#include "launcher/supervise/hosts/growth.h"
#include "launcher/supervise/restarts.h"
#include "launcher/supervise/run/attempt.h"
#include "launcher/supervise/run/cause.h"
#include "launcher/supervise/run/stop_request.h"

namespace lockstep::launcher {

namespace {
std::string ranks_text(int64_t n) { return str(n, n == 1 ? " rank" : " ranks"); }

// What a restart resumes from.
std::string newest_text(const std::string& memory_dir, int64_t on_disk) {
  const int64_t kept = memory_dir.empty() ? -1 : newest_step_in(memory_dir);
  return kept > on_disk ? str("from memory (step ", kept, ")") : "from the last checkpoint";
}

// Sleeps until the time is over (true) or the user asks to stop (false).
bool wait_unless_stopped(double seconds) {
  for (const double until = steady_seconds() + seconds; steady_seconds() < until;) {
    if (signals_seen() > 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class Supervision {
 public:
  Supervision(const LaunchOptions& asked, RunFolder& folder)
      : asked_(asked),
        folder_(folder),
        members_(asked),
        growth_(asked),
        budget_(asked),
        progress_{-1, newest_checkpoint(folder.path())} {
    console_.show_ranks(asked.shown);
  }

  int run() {
    for (int64_t start = 0;; ++start) {
      const AttemptFacts facts = attempt(start);
      const AttemptOutcome outcome = diagnose(facts);
      if (outcome.cause.empty()) {
        if (outcome.exit_code != kExitStopped || !changes_ranks()) return ended(outcome, facts);
        change_ranks();
        continue;
      }
      tell(outcome);
      if (!goes_on(facts, outcome)) return gave_up(outcome);
    }
  }

 private:
  // Reasons to stop an attempt that do not end the run.
  enum class Change { none, grow, leave_out };

  AttemptFacts attempt(int64_t start) {
    LaunchOptions options = asked_;
    options.hosts = members_.hosts();
    if (!devices_.empty()) options.variables.emplace_back("CUDA_VISIBLE_DEVICES", devices_);
    if (options.hosts.reach == Reach::agents) {
      await_agents(options, folder_.path(), console_);
      members_.name_hosts(options.hosts);
    }
    if (const std::string moved = folder_.moved(); !moved.empty()) throw UserError(moved);
    log_dir_ = folder_.new_attempt(asked_.keep_attempts);
    const auto command =
        launch_command(options, members_.nproc(), folder_.path(), log_dir_, start, console_.columns());
    change_ = Change::none;
    growth_.begin(grown_, steady_seconds());
    grown_ = false;
    StopRequest stop(options.grace, [this](const SlowRanks& slow) { return wish(slow); }, console_);
    return options.hosts.several() ? run_hosts_attempt(command, log_dir_, stop, console_)
                                   : run_attempt(command, log_dir_, stop, console_);
  }

  StopWish wish(const SlowRanks& slow) {
    if (asked_.timeout > 0 && steady_seconds() - began_ > asked_.timeout)
      return {str("--timeout ", duration_text(asked_.timeout)), "", true};
    if (growth_.due(members_, steady_seconds())) {
      stops_for(Change::grow);
      Membership with = members_;
      with.take_back(growth_.back());
      return {str(members_.nproc(), " of ", ranks_text(members_.wanted()), ", and others can be had again"),
              goes_on_with(with)};
    }
    for (const auto& [rank, factor] : slow) {
      const std::string host = members_.hosts().of(rank);
      if (asked_.slow_host <= 0 || factor < asked_.slow_host || host.empty()) continue;
      Membership without = members_;
      if (!without.leave_out(host)) continue;
      stops_for(Change::leave_out);
      slow_host_ = host;
      return {str("host ", host, " takes ", number_text(std::round(factor * 10) / 10),
                  " times as long as the others (--slow-host ", number_text(asked_.slow_host), ")"),
              goes_on_with(without)};
    }
    return {};
  }

  static std::string goes_on_with(const Membership& members) {
    return str(", to go on with ", ranks_text(members.nproc()));
  }

  // Written before the signal, so that the ranks see it first.
  void stops_for(Change change) {
    change_ = change;
    append_private(regroup_file(log_dir_), "the run goes on at once, with other ranks\n");
  }

  bool changes_ranks() const { return change_ != Change::none && signals_seen() == 0; }

  void change_ranks() {
    const int64_t before = members_.nproc();
    if (change_ == Change::grow) {
      members_.take_back(growth_.back());
      grown_ = true;
    } else {
      members_.leave_out(slow_host_);
    }
    console_.notice(str("goes on with ", ranks_text(members_.nproc()), " (", before, " before)"));
  }

  int ended(const AttemptOutcome& outcome, const AttemptFacts& facts) {
    if (outcome.exit_code == kExitStopped) console_.notice(stopped_text(outcome, facts.stop_reason));
    return outcome.exit_code;
  }

  void tell(const AttemptOutcome& outcome) {
    console_.notice(str("root cause: ", outcome.cause));
    append_private(log_dir_ + "/launcher.log", str("root cause: ", outcome.cause, "\n"));
    for (const auto& line : outcome.others) console_.notice(str("  then ", line));
    // A config error found before step 1 has been reported in full, so its folder is removed.
    if (outcome.exit_code != kExitUser || !asked_.heeds_stop || !folder_.remove_unused())
      console_.notice(str("logs: ", log_dir_));
    if (first_cause_.empty()) first_cause_ = outcome.cause;
  }

  bool goes_on(const AttemptFacts& facts, const AttemptOutcome& outcome) {
    const bool further = progress_.advance(facts.furthest_step, newest_checkpoint(folder_.path()));
    fruitless_ = further || restarts_ == 0 ? 0 : fruitless_ + 1;
    if (!folder_.moved().empty()) return false;
    if (outcome.wrong && signals_seen() == 0) return leaves_out(*outcome.wrong);
    if (!outcome.restartable || signals_seen() > 0) return false;
    const bool grown_too_soon = growth_.failed(steady_seconds());
    if (!grown_too_soon && !budget_.take(steady_seconds())) return false;
    ++restarts_;
    const int64_t before = members_.nproc();
    members_.lose(facts.lost_hosts, outcome.dead);
    const double delay = restart_delay(asked_, fruitless_);
    console_.notice(
        str(grown_too_soon ? "what was taken back is lost again: restart" : budget_.words(steady_seconds()),
            delay > 0 ? str(" in ", number_text(delay), " s, ") : " at once, ",
            newest_text(asked_.memory_dir, progress_.checkpoint), ", with ", ranks_text(members_.nproc()),
            members_.nproc() < before ? str(" (", before, " before)") : ""));
    stopped_waiting_ = !wait_unless_stopped(delay);
    return !stopped_waiting_;
  }

  // Ranks computed wrong. Continuing without them does not use the restart budget: the number of ranks falls
  // each time.
  bool leaves_out(const WrongRanks& wrong) {
    if (!wrong.leave_out) return false;
    const int64_t before = members_.nproc();
    const auto left = wrong.devices.empty() ? 0 : static_cast<int64_t>(split(wrong.devices, ',').size());
    std::vector<std::string> who;
    for (int64_t rank : wrong.ranks) {
      const std::string host = members_.hosts().of(rank);
      const std::string word = host.empty() ? str("rank ", rank) : str("host ", host);
      if (std::find(who.begin(), who.end(), word) == who.end()) who.push_back(word);
    }
    if (!members_.exclude(wrong.ranks, left)) {
      console_.notice(str("cannot go on without ", join(who, ", "), ": too few ranks would be left of ",
                          ranks_text(before),
                          "; --min-nproc N allows as few as N, and on several hosts a spare "
                          "host may take the place"));
      return false;
    }
    if (!wrong.devices.empty()) devices_ = wrong.devices;
    console_.notice(str("goes on without ", join(who, ", "), ", ",
                        newest_text(asked_.memory_dir, progress_.checkpoint), ", with ",
                        ranks_text(members_.nproc()), " (", before, " before)",
                        devices_.empty() ? "" : str(", on GPUs ", devices_)));
    return true;
  }

  // Checkpoints of a program, or outside the run's folder, are not counted here.
  bool none_saved() const {
    return asked_.heeds_stop && progress_.checkpoint < 0 && newest_step_in(asked_.memory_dir) < 0 &&
           !std::filesystem::exists(folder_.path() + "/ckpt.at");
  }

  int gave_up(const AttemptOutcome& outcome) {
    if (const std::string moved = folder_.moved(); !moved.empty()) {
      console_.notice(moved);
    } else if (stopped_waiting_) {
      console_.notice(str(signal_text(first_signal()),
                          ": this restart is not made; the same command continues from the last checkpoint"));
    } else if (restarts_ > 0) {
      console_.notice(
          str("gave up after ", restarts_, restarts_ == 1 ? " restart" : " restarts",
              first_cause_ == outcome.cause ? "" : str("; the first failure was: ", first_cause_)));
    } else if (outcome.restartable && asked_.max_restarts == 0 && signals_seen() == 0) {
      console_.notice(str("the same command ",
                          none_saved() ? "begins again, for no checkpoint is saved yet"
                                       : "continues from the last checkpoint",
                          "; --max-restarts N does so by itself"));
    }
    return outcome.exit_code;
  }

  const LaunchOptions asked_;
  RunFolder& folder_;
  Console console_;
  Membership members_;
  Growth growth_;
  RestartBudget budget_;
  Progress progress_;
  const double began_ = steady_seconds();
  int64_t restarts_ = 0, fruitless_ = 0;
  bool stopped_waiting_ = false;
  bool grown_ = false;  // the next attempt has returned ranks
  Change change_ = Change::none;
  std::string log_dir_, slow_host_, first_cause_;
  std::string devices_;  // CUDA_VISIBLE_DEVICES when GPUs are left out
};
}  // namespace

int supervise(const LaunchOptions& options, RunFolder& folder) {
  install_signals();
  return Supervision(options, folder).run();
}

}  // namespace lockstep::launcher
