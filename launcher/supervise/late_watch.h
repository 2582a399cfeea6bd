// LateWatch: who keeps the others waiting, read from the flight records of an attempt while its ranks live.
// It names a stopped rank, one that others wait for and one that started another collective within two
// seconds, and says when the run is to be ended for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distributed/watch/late.h"
#include "launcher/supervise/slow_watch.h"

namespace lockstep::launcher {

// The state of a process as /proc says it: R, S, D, T (stopped), t (traced), Z (dead and not yet waited for);
// 0 where there is none.
char process_state(int64_t pid);

// Where a rank is: "step 60, in all_reduce "gradients" of group world".
std::string place_text(const distributed::FlightLog& log);

class LateWatch {
 public:
  using ProcessState = std::function<char(int64_t pid)>;
  // The records are those of `nproc` ranks in `log_dir`, which need not be there yet. `hosts`: the host of
  // each rank where there are several, of which nothing is seen but copies of the records; empty: the ranks
  // are on this host.
  LateWatch(std::string log_dir, int64_t nproc, const Deadlines& deadlines,
            ProcessState state = process_state, std::vector<std::string> hosts = {});

  // The process of a rank, which is watched from here on, before it has a record.
  void started(int64_t rank, int64_t pid) { ranks_[rank].at.pid = pid; }
  // What there is to say now, each thing once: that a rank is stopped, or late while the others wait, or
  // slow; and that it is so no more. Call it every few milliseconds: most calls do nothing. Time in which it
  // was not called did not pass: who watches was stopped itself.
  std::vector<std::string> look(int64_t now_ns = distributed::flight_clock_ns());
  // Why the run must end now, naming the rank at fault; "" while it may go on. It is restartable.
  const std::string& verdict() const { return verdict_; }
  // What the ranks' records differ in, where they do: the reason of a failure that one of them reported; ""
  // for none.
  std::string disagreement() const;
  // Of several hosts those of whose ranks none gives a sign of life.
  std::vector<std::string> silent_hosts() const;
  SlowRanks slow() const { return slow_.slow(); }
  // place_text of a rank, also after its death; "" where it left no record.
  std::string place(int64_t rank) const;
  // Makes plain files of the records, for those who look later.
  void keep() const;

 private:
  struct Rank {
    std::optional<distributed::FlightReader> record;
    distributed::WorkerProgress at;
    int64_t moved_ns = 0;    // when its progress word last changed
    int64_t stopped_ns = 0;  // since when it is known to be stopped; 0: it is not
    int64_t halted_ns = 0;   // since when it was seen stopped before it had a record; 0: it was not
    int64_t cpu_from_ns = 0, cpu_from_beat_ns = 0;
    double cores = -1;  // that it used lately; -1: not known
    bool unreadable_told = false;
    int64_t apart_ns = 0;  // of copies: from their host's clock to this one's
    bool clock_known = false;
  };
  struct Told {
    distributed::LateReport report;
    bool aloud = true;  // false: it was found while another thing was told already
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
  double limit() const;  // seconds that a wait may last now
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
  double step_s_ = 0;  // typical; 0: not known
  std::map<std::pair<uint64_t, int64_t>, Told>
      told_;  // by group and number; the collectives that were told and still wait
  std::map<std::string, int64_t> said_ns_;  // when a sentence about this rank and site was last said
};

}  // namespace lockstep::launcher
