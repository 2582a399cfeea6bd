// LateWatch: turns flight records and process states into reports and a verdict.
#include "launcher/supervise/watch/late.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

using namespace distributed;

namespace {
constexpr double kBetweenLooks = 0.1;  // seconds between checks of the progress words
constexpr double kRead = 1,
                 // seconds between checks of all collectives while a progress word does not change
    kReadOften = 0.25;
// a longer gap between two calls means that the watcher itself did not run
constexpr double kNotCalled = 1.5;
constexpr double kStopped = 0.8;  // without a heartbeat, when the host reports the process as stopped
constexpr double kSilent = 3;  // without a heartbeat, in any process state: a frozen cgroup, or no free core
constexpr double kCopySilent = 5;  // the same for a copy, which is written once a second
// waiting time of the others, during steps, before a rank is reported late
constexpr double kLate = 1.5;
constexpr double kDead = 3;         // waiting time of the others for a process that is gone without a report
constexpr double kAgain = 60;       // before the same sentence is repeated
constexpr double kUnreadable = 10;  // before a missing record is reported

std::string seconds_text(double seconds) {
  return number_text(static_cast<double>(static_cast<int64_t>(seconds * 10)) / 10);
}
bool is_gone(char state) { return state == 0 || state == 'Z' || state == 'X'; }
bool is_halted(char state) { return state == 'T' || state == 't'; }

// Maps ranks of a group to ranks of the run; -1 when the rank's record does not mention the group.
std::vector<int64_t> run_ranks(const GroupIdentity& group, const std::vector<int>& ranks,
                               const std::vector<FlightLog>& logs) {
  std::vector<int64_t> out;
  for (int rank : ranks) {
    int64_t found = group.size == static_cast<int>(logs.size()) && group.name == "world" ? rank : -1;
    for (const FlightLog& log : logs)
      for (const FlightEntry& entry : log.entries)
        if (entry.group.key == group.key && entry.group.rank == rank) found = log.progress.rank;
    out.push_back(found);
  }
  return out;
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  std::vector<std::string> out;
  for (int64_t rank : ranks) out.push_back(rank < 0 ? "one that has not spoken" : str(rank));
  return str(out.size() == 1 ? "rank " : "ranks ", join(out, ", "));
}
std::string where_text(const LateReport& report) {
  return str(report.verb, " \"", report.label, "\" of group ", report.group.name);
}

// All ranks that know the collective have finished it, none by a failure (which is reported elsewhere).
bool went_well(const std::vector<FlightLog>& logs, const std::pair<uint64_t, int64_t>& key) {
  for (const FlightLog& log : logs)
    for (const FlightEntry& entry : log.entries)
      if (entry.group.key == key.first && entry.group_seq == key.second && entry.state != FlightState::done)
        return false;
  return true;
}
const FlightLog* log_of(const std::vector<FlightLog>& logs, int64_t rank) {
  for (const FlightLog& log : logs)
    if (log.progress.rank == rank) return &log;
  return nullptr;
}
bool waits_itself(const FlightLog* log) {
  return log && std::any_of(log->entries.begin(), log->entries.end(),
                            [](const auto& entry) { return entry.state == FlightState::started; });
}
// Ranks that have not reached the collective and do not wait in another one.
std::vector<int64_t> idle_absent(const LateReport& report, const std::vector<FlightLog>& logs) {
  std::vector<int64_t> out;
  for (int64_t rank : run_ranks(report.group, report.missing, logs))
    if (rank < 0 || !waits_itself(log_of(logs, rank))) out.push_back(rank);
  return out;
}
}  // namespace

char process_state(int64_t pid) {
  std::ifstream file(str("/proc/", pid, "/stat"));
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const size_t name_ends = line.rfind(") ");  // the name may contain any character
  return name_ends == std::string::npos || name_ends + 2 >= line.size() ? '\0' : line[name_ends + 2];
}

std::string place_text(const FlightLog& log) {
  std::string out = log.progress.step >= 0 ? str("step ", log.progress.step) : "before the first step";
  for (const auto& entry : log.entries)
    if (entry.state == FlightState::started)
      return str(out, ", in ", entry.verb, entry.label.empty() ? "" : str(" \"", entry.label, "\""),
                 " of group ", entry.group.name);
  return out;
}

// A process on another host is known only by what it writes.
constexpr char kUnseen = '?';

LateWatch::LateWatch(std::string log_dir, int64_t nproc, const Deadlines& deadlines, ProcessState state,
                     std::vector<std::string> hosts)
    : log_dir_(std::move(log_dir)),
      deadlines_(deadlines),
      state_of_(hosts.empty() ? std::move(state) : [](int64_t) { return kUnseen; }),
      hosts_(std::move(hosts)),
      ranks_(nproc),
      slow_(nproc) {}

// Duration of a typical step, from rank 0's record: waits are judged by it.
void LateWatch::time_steps(int64_t now_ns) {
  const int64_t step = ranks_[0].at.step;
  if (step <= step_) return;
  const double each = static_cast<double>(now_ns - step_ns_) * 1e-9 / static_cast<double>(step - step_);
  if (step_ > 0) step_s_ = step_s_ > 0 ? 0.8 * step_s_ + 0.2 * each : each;
  step_ = step;
  step_ns_ = now_ns;
}

double LateWatch::limit() const {
  const bool steps =
      std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.at.pace == Pace::steps; });
  return steps ? deadlines_.step_s : deadlines_.start_s;
}

// Between steps a wait of seconds is worth a report. Outside of stepping, one rank may compile, read or write
// for all.
double LateWatch::notice_after() const {
  const bool steps =
      std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.at.pace == Pace::steps; });
  return steps
             ? std::min(deadlines_.step_s / 2, std::max(std::min(kLate, deadlines_.step_s / 3), 2 * step_s_))
             : deadlines_.start_s / 3;
}

double LateWatch::seconds_since(int64_t then_ns, int64_t now_ns) const {
  return static_cast<double>(now_ns - std::max(then_ns, fair_ns_)) * 1e-9;
}

std::string LateWatch::deadline_words() const {
  const bool steps = limit() == deadlines_.step_s;
  return str(seconds_text(limit()), " s (", steps ? "watch.deadline" : "watch.start_deadline", ")");
}

std::string LateWatch::process_words(int64_t rank) const {
  return str("rank ", rank, " (process ", ranks_[rank].at.pid,
             hosts_.empty() ? "" : str(" on ", hosts_[rank]), ")");
}

std::string LateWatch::condition(int64_t rank) const {
  const Rank& at = ranks_[rank];
  const char state = state_of_(at.at.pid);
  if (is_gone(state)) return str("its process ", at.at.pid, " is gone");
  if (at.stopped_ns) return is_halted(state) ? "it is stopped" : "it does not run";
  if (at.cores < 0) return "";
  if (at.cores >= 0.2)
    return str("it computes (", number_text(static_cast<double>(static_cast<int64_t>(at.cores * 10)) / 10),
               " cores)");
  return "it sleeps (a disk, a lock, or a wait that is not for a collective)";
}

std::string LateWatch::sentence(const LateReport& report, const Logs& logs, double waited_s) const {
  const std::string end = str("; the run ends after ", deadline_words());
  if (report.missing.empty())
    return str("all ranks are at ", where_text(report), " and run, but it has not completed for ",
               seconds_text(waited_s), " s: a message between them is lost, or its transport stands", end);
  const auto late = run_ranks(report.group, report.missing, logs),
             there = run_ranks(report.group, report.arrived, logs);
  std::string places;
  for (int64_t rank : late) {
    if (rank < 0) continue;
    const FlightLog* log = log_of(logs, rank);
    const std::string how = condition(rank);
    places += str("; rank ", rank, " is at ", log ? place_text(*log) : "", how.empty() ? "" : str(", ", how));
  }
  return str(ranks_text(late), late.size() == 1 ? " is late: " : " are late: ", ranks_text(there),
             there.size() == 1 ? " has waited " : " have waited ", seconds_text(waited_s), " s in ",
             where_text(report), places, end);
}

// The root cause of a wait that has lasted too long.
std::string LateWatch::blame(const LateReport& report, const Logs& logs, double waited_s) const {
  const std::string wait = str(where_text(report), " for ", seconds_text(waited_s), " s");
  if (report.missing.empty())
    return str(
        where_text(report), " did not complete within ", deadline_words(),
        ", though all ranks are at it and run: a message between them is lost, or its transport stands");
  std::vector<int64_t> roots = idle_absent(report, logs);
  if (roots.empty()) roots = run_ranks(report.group, report.missing, logs);
  std::string places;
  for (int64_t rank : roots) {
    const FlightLog* log = log_of(logs, rank);
    const std::string how = rank < 0 ? "" : condition(rank);
    if (log) places += str("; rank ", rank, " is at ", place_text(*log), how.empty() ? "" : str(", ", how));
  }
  return str(ranks_text(roots), " did not come to ", wait, ", where ",
             ranks_text(run_ranks(report.group, report.arrived, logs)),
             report.arrived.size() == 1 ? " waits" : " wait", places, "; the deadline is ", deadline_words());
}

// Ranks without a record have no heartbeat: only the host's process state is known.
void LateWatch::watch_starts(int64_t now_ns, std::vector<std::string>& out) {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    if (rank.record || rank.at.pid == 0) continue;
    if (!is_halted(state_of_(rank.at.pid))) {
      if (rank.stopped_ns)
        out.push_back(str("rank ", r, " runs again after ",
                          seconds_text(seconds_since(rank.stopped_ns, now_ns)), " s"));
      rank.stopped_ns = rank.halted_ns = 0;
      continue;
    }
    if (rank.halted_ns == 0) rank.halted_ns = now_ns;
    const double halted = seconds_since(rank.halted_ns, now_ns);
    const std::string what = str(process_words(static_cast<int64_t>(r)),
                                 " is stopped (SIGSTOP, Ctrl-Z or a debugger), before it has begun");
    if (halted >= kStopped && !rank.stopped_ns) {
      rank.stopped_ns = rank.halted_ns;
      out.push_back(str(what, "; the run ends if it does not go on within ", deadline_words()));
    }
    if (halted >= limit() && verdict_.empty())
      verdict_ = str(what, ", for ", seconds_text(halted), " s; the deadline is ", deadline_words());
  }
}

void LateWatch::watch_stopped(int64_t now_ns, const Logs& logs, std::vector<std::string>& out) {
  const std::string before = verdict_;
  std::vector<int64_t> stopped;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    if (!rank.record || rank.at.beat_ns == 0) continue;
    const double silent = seconds_since(rank.at.beat_ns, now_ns);
    if (silent < (hosts_.empty() ? kStopped : kCopySilent)) {
      if (rank.stopped_ns)
        out.push_back(str("rank ", r, " runs again after ",
                          seconds_text(static_cast<double>(rank.at.beat_ns - rank.stopped_ns) * 1e-9), " s"));
      rank.stopped_ns = 0;
      continue;
    }
    const char state = state_of_(rank.at.pid);
    if (is_gone(state)) continue;  // its end is reported by the code that waits for it
    const bool halted = is_halted(state);
    if (!halted && silent < kSilent) continue;
    std::string waits;
    for (const LateReport& report : find_late(logs, 0.3, now_ns)) {
      const auto there = run_ranks(report.group, report.arrived, logs);
      std::vector<int64_t> others;
      std::copy_if(there.begin(), there.end(), std::back_inserter(others),
                   [&](int64_t one) { return one != static_cast<int64_t>(r); });
      if (others.empty()) continue;
      const bool missing = std::find(there.begin(), there.end(), static_cast<int64_t>(r)) == there.end();
      waits = str(missing ? "; it is not at " : "; it does not go on in ", where_text(report), ", where ",
                  ranks_text(others), others.size() == 1 ? " waits" : " wait");
      break;
    }
    const FlightLog* log = log_of(logs, static_cast<int64_t>(r));
    const std::string what =
        str(process_words(static_cast<int64_t>(r)), " ",
            halted ? str("is stopped", state == 't' ? " by a debugger" : " (SIGSTOP, Ctrl-Z or a debugger)")
            : hosts_.empty() ? str("does not run (no heartbeat; state ", state, ")")
                             : std::string("gives no sign of life (it is frozen, or its host is cut off)"));
    const std::string place = log ? str(", at ", place_text(*log)) : "";
    if (!rank.stopped_ns) {
      rank.stopped_ns = rank.at.beat_ns;
      out.push_back(str(what, place, waits, "; the run ends if it does not go on within ", deadline_words()));
    }
    if (halted) stopped.push_back(static_cast<int64_t>(r));
    if (silent >= limit() && verdict_.empty())
      verdict_ = str(what, " for ", seconds_text(silent), " s", place, waits, "; the deadline is ",
                     deadline_words());
  }
  if (verdict_ == before || stopped.size() < 2) return;
  std::vector<std::string> processes;
  for (int64_t rank : stopped) processes.push_back(str(ranks_[rank].at.pid));
  verdict_ =
      str(stopped.size() == ranks_.size() ? str("all ", stopped.size(), " ranks") : ranks_text(stopped),
          " are stopped (SIGSTOP, Ctrl-Z or a debugger; processes ", join(processes, ", "),
          "); the deadline is ", deadline_words());
}

void LateWatch::watch_waiting(int64_t now_ns, const Logs& logs, std::vector<std::string>& out) {
  if (auto mismatch = find_mismatch(logs); mismatch && verdict_.empty()) verdict_ = text(*mismatch);
  const bool someone_stopped =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.stopped_ns != 0; });
  std::map<std::pair<uint64_t, int64_t>, Told> waiting;
  std::set<uint64_t> groups;
  std::vector<std::pair<LateReport, double>> suspects;
  bool expired = false;
  for (const LateReport& report : find_late(logs, std::min(notice_after(), kDead), now_ns)) {
    const std::pair key{report.group.key, report.group_seq};
    const double waited = std::min(report.waited_s, seconds_since(fair_ns_, now_ns));
    // Only the oldest waiting collective of a group is reported; later ones wait with it.
    const bool behind = !groups.insert(report.group.key).second;
    if (behind && !told_.count(key)) continue;
    for (int64_t rank : run_ranks(report.group, report.missing, logs))
      if (rank >= 0 && waited >= kDead && verdict_.empty() && is_gone(state_of_(ranks_[rank].at.pid)))
        verdict_ =
            str(process_words(rank), " is gone, and its launcher has not said so; ",
                place(rank).empty() ? "" : str("it was at ", place(rank), "; "),
                ranks_text(run_ranks(report.group, report.arrived, logs)), " wait in ", where_text(report));
    if (waited < notice_after()) continue;
    expired |= waited >= limit();
    if (waited >= limit() / 2) suspects.emplace_back(report, waited);
    auto told = told_.find(key);
    Told now{report, told != told_.end() && told->second.aloud};
    if (told == told_.end()) {
      // A stopped rank was reported already, and so was a wait that recurs.
      int64_t& last = said_ns_[str(ranks_text(run_ranks(report.group, report.missing, logs)), report.label)];
      now.aloud = !someone_stopped && (last == 0 || static_cast<double>(now_ns - last) * 1e-9 > kAgain);
      if (now.aloud) out.push_back(sentence(report, logs, waited)), last = now_ns;
    }
    waiting[key] = std::move(now);
  }
  if (expired && verdict_.empty() && !someone_stopped) {
    // In a chain of waits, the root is the wait whose absent rank does not wait itself.
    auto root = std::find_if(suspects.begin(), suspects.end(),
                             [&](const auto& suspect) { return !idle_absent(suspect.first, logs).empty(); });
    if (root == suspects.end()) root = suspects.begin();
    verdict_ = blame(root->first, logs, root->second);
  }
  for (const auto& [key, told] : told_)
    if (told.aloud && !waiting.count(key) && went_well(logs, key))
      out.push_back(str(where_text(told.report), " goes on: it is not waited for any more"));
  told_ = std::move(waiting);
}

std::vector<std::string> LateWatch::look(int64_t now_ns) {
  open_records(now_ns);  // at every call: the record of a rank can be opened only while the rank is alive
  const double since = static_cast<double>(now_ns - looked_ns_) * 1e-9;
  if (looked_ns_ && since < kBetweenLooks) return {};
  if (began_ns_ == 0) began_ns_ = now_ns;
  if (looked_ns_ == 0 || since > kNotCalled) fair_ns_ = now_ns;
  looked_ns_ = now_ns;
  std::vector<std::string> out;
  try {
    read_progress_words(now_ns);
    time_steps(now_ns);
    std::vector<WorkerProgress> words;
    bool standing = false, silent = false;
    for (const Rank& rank : ranks_) {
      words.push_back(rank.at);
      standing |= rank.record && static_cast<double>(now_ns - rank.moved_ns) * 1e-9 >= 0.5;
      silent |= rank.record && rank.at.beat_ns &&
                (rank.stopped_ns ||
                 seconds_since(rank.at.beat_ns, now_ns) >= (hosts_.empty() ? kStopped : kCopySilent));
    }
    const double read = static_cast<double>(now_ns - read_ns_) * 1e-9;
    if (all_open()) {
      for (auto& line : slow_.look(words, now_ns)) out.push_back(std::move(line));
      if (read >= (standing || silent ? kReadOften : kRead)) {
        read_ns_ = now_ns;
        const Logs logs = read_logs();
        watch_stopped(now_ns, logs, out);
        watch_waiting(now_ns, logs, out);
      }
    } else {
      watch_starts(now_ns, out);
      if (read >= kRead) read_ns_ = now_ns, watch_stopped(now_ns, read_logs(), out);
      const bool late = static_cast<double>(now_ns - began_ns_) * 1e-9 > kUnreadable;
      for (size_t r = 0; r < ranks_.size() && late; ++r)
        if (!ranks_[r].record && !std::exchange(ranks_[r].unreadable_told, true))
          if (open_plain(worker_file(log_dir_, static_cast<int64_t>(r))).fd)
            out.push_back(str("the flight record of rank ", r, " cannot be read (",
                              progress_file(log_dir_, static_cast<int64_t>(r)),
                              "): late and stopped ranks are not named"));
    }
  } catch (const UserError& error) { out.push_back(str("late ranks cannot be seen: ", error.what())); }
  return out;
}

}  // namespace lockstep::launcher
