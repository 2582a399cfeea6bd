// LateWatch: finds the rank that keeps the others waiting, from the flight records of a running attempt.
// Within two seconds it names a rank that is stopped, that others wait for, or that started a different
// collective; it decides when the run must end for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distributed/watch/late.h"
#include "launcher/supervise/watch/slow.h"

namespace lockstep::launcher {

// The state of a process in /proc: R, S, D, T (stopped), t (traced), Z (zombie); 0 without such a process.
char process_state(int64_t pid);

// A rank's position: "step 60, in all_reduce "gradients" of group world".
std::string place_text(const distributed::FlightLog& log);

class LateWatch {
 public:
  using ProcessState = std::function<char(int64_t pid)>;
  // Watches the records of `nproc` ranks in `log_dir`, which need not exist yet. `hosts`: the host of each
  // rank when there are several; then only copies of the records are visible. Empty: all ranks are on this
  // host.
  LateWatch(std::string log_dir, int64_t nproc, const Deadlines& deadlines,
            ProcessState state = process_state, std::vector<std::string> hosts = {});

  // Registers the process of a rank, which is watched from now on, even before it has a record.
  void started(int64_t rank, int64_t pid) { ranks_[rank].at.pid = pid; }
  // New reports, each given once: a rank is stopped, late while the others wait, or slow; or no longer so.
  // Call it every few milliseconds: most calls do nothing. Time without calls does not count, because then
  // the watcher itself was stopped.
  std::vector<std::string> look(int64_t now_ns = distributed::flight_clock_ns());
  // Why the run must end now, naming the rank at fault; "" while it may go on. It is restartable.
  const std::string& verdict() const { return verdict_; }
  // How the ranks' records differ, as the reason of a failure that one of them reported; "" if they agree.
  std::string disagreement() const;
  // With several hosts: those whose ranks are all silent.
  std::vector<std::string> silent_hosts() const;
  SlowRanks slow() const { return slow_.slow(); }
  // place_text of a rank, also after its death; "" when it left no record.
  std::string place(int64_t rank) const;
  // Writes the records as plain files, for later inspection.
  void keep() const;

 private:
  struct Rank {
    std::optional<distributed::FlightReader> record;
    distributed::WorkerProgress at;
    int64_t moved_ns = 0;    // when its progress word last changed
    int64_t stopped_ns = 0;  // when it was first known to be stopped; 0: it is not
    int64_t halted_ns = 0;   // when it was first seen stopped before it had a record; 0: never
    int64_t cpu_from_ns = 0, cpu_from_beat_ns = 0;
    double cores = -1;  // CPU cores used recently; -1: unknown
    bool unreadable_told = false;
    int64_t apart_ns = 0;  // for copies: offset from their host's clock to this one's
    bool clock_known = false;
  };
  struct Told {
    distributed::LateReport report;
    bool aloud = true;  // false: found after something else was reported, so not reported itself
  };
  using Logs = std::vector<distributed::FlightLog>;

  void open_records(int64_t now_ns);
  void read_progress_words(int64_t now_ns);
  void read_copy(size_t rank, int64_t now_ns);
  void time_steps(int64_t now_ns);
  void watch_starts(int64_t now_ns, std::vector<std::string>& out);
  void watch_stopped(int64_t now_ns, const Logs& logs, std::vector<std::string>& out);
  void watch_waiting(int64_t now_ns, const Logs& logs, std::vector<std::string>& out);
  Logs read_logs() const;
  bool all_open() const;
  double limit() const;  // the current limit of a wait, in seconds
  double notice_after() const;
  double seconds_since(int64_t then_ns, int64_t now_ns) const;
  std::string sentence(const distributed::LateReport& report, const Logs& logs, double waited_s) const;
  std::string blame(const distributed::LateReport& report, const Logs& logs, double waited_s) const;
  std::string condition(int64_t rank) const;
  std::string process_words(int64_t rank) const;
  std::string deadline_words() const;

  std::string log_dir_;
  Deadlines deadlines_;
  ProcessState state_of_;
  std::vector<std::string> hosts_;
  std::vector<Rank> ranks_;
  SlowWatch slow_;
  std::string verdict_;
  int64_t looked_ns_ = 0, read_ns_ = 0, copies_ns_ = 0, fair_ns_ = 0, began_ns_ = 0;
  int64_t step_ = -1, step_ns_ = 0;
  double step_s_ = 0;  // typical duration; 0: unknown
  // by group and number: reported collectives that still wait
  std::map<std::pair<uint64_t, int64_t>, Told> told_;
  std::map<std::string, int64_t> said_ns_;  // time of the last report about this rank and site
};

}  // namespace lockstep::launcher
