// From flight records to sentences about late ranks.
#include "launcher/supervise/late_watch.h"

#include <algorithm>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/mesh/deadline.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/contract.h"

namespace lockstep {

namespace {
std::string seconds_text(double seconds) { return number_text(static_cast<double>(static_cast<int64_t>(seconds * 10)) / 10); }

// The ranks of the run that are these ranks of a group; -1 where no record of the rank speaks of the group.
std::vector<int64_t> run_ranks(const GroupIdentity& group, const std::vector<int>& ranks, const std::vector<FlightLog>& logs) {
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
// All ranks that know the collective have ended it, none by a failure (which tells itself).
bool went_well(const std::vector<FlightLog>& logs, const std::pair<uint64_t, int64_t>& key) {
  for (const FlightLog& log : logs)
    for (const FlightEntry& entry : log.entries)
      if (entry.group.key == key.first && entry.group_seq == key.second && entry.state != FlightState::done) return false;
  return true;
}
}  // namespace

LateWatch::LateWatch(std::string log_dir, int64_t nproc, double deadline_s)
    : log_dir_(std::move(log_dir)), nproc_(nproc), deadline_s_(deadline_s), after_s_(deadline_s / 3) {}

std::string LateWatch::sentence(const LateReport& report, const std::vector<FlightLog>& logs) const {
  const std::string where = str(report.verb, " \"", report.label, "\" of group ", report.group.name);
  const std::string end = str("; they give up after ", seconds_text(deadline_s_), " s (LOCKSTEP_DEADLINE)");
  if (report.missing.empty())
    return str("no rank is late, but ", where, " has not completed for ", seconds_text(report.waited_s), " s", end);
  const auto late = run_ranks(report.group, report.missing, logs), there = run_ranks(report.group, report.arrived, logs);
  std::string places;
  for (int64_t rank : late) {
    const std::string place = rank < 0 ? "" : last_place(log_dir_, rank);
    if (!place.empty()) places += str("; rank ", rank, " is at ", place);
  }
  return str(ranks_text(late), late.size() == 1 ? " is late: " : " are late: ", ranks_text(there),
             there.size() == 1 ? " has waited " : " have waited ", seconds_text(report.waited_s), " s in ", where, places, end);
}

std::vector<std::string> LateWatch::look(int64_t now_ns) {
  if (nproc_ < 2 || !(deadline_s_ > 0) || static_cast<double>(now_ns - looked_ns_) * 1e-9 < std::max(0.1, after_s_ / 10)) return {};
  looked_ns_ = now_ns;
  std::vector<FlightLog> logs;
  for (int64_t rank = 0; rank < nproc_; ++rank) try {
      logs.push_back(read_flight_log(progress_file(log_dir_, rank)));
    } catch (const UserError&) {
      return {};  // not every rank has begun: who is not there yet is not late
    }
  std::vector<std::string> out;
  std::map<std::pair<uint64_t, int64_t>, LateReport> waiting;
  for (const LateReport& report : find_late(logs, after_s_, now_ns)) {
    const std::pair key{report.group.key, report.group_seq};
    // The oldest collective of a group that waits is told; what was started behind it waits with it.
    const bool behind = std::any_of(waiting.begin(), waiting.end(), [&](const auto& other) { return other.first.first == key.first; });
    if (!told_.count(key)) {
      if (behind) continue;
      out.push_back(sentence(report, logs));
    }
    waiting[key] = report;
  }
  for (const auto& [key, report] : told_)
    if (!waiting.count(key) && went_well(logs, key))
      out.push_back(str(report.verb, " \"", report.label, "\" of group ", report.group.name, " goes on: it is not waited for any more"));
  told_ = std::move(waiting);
  return out;
}

double workers_deadline() {
  try {
    return read_deadlines(env("LOCKSTEP_DEADLINE")).step_s;
  } catch (const UserError&) { return 0; }
}

}  // namespace lockstep
