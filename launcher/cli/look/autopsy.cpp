// trainrun autopsy: prints the cause of an attempt's end, the position of each rank, and their first
// difference.
#include <algorithm>
#include <cstdio>
#include <ostream>

#include "core/base/error.h"
#include "distributed/watch/late.h"
#include "launcher/cli/ckpt/paths.h"
#include "launcher/cli/look/attempt_records.h"
#include "launcher/cli/watch_commands.h"
#include "launcher/supervise/run/cause.h"

namespace lockstep::launcher::cli {

using namespace distributed;

namespace {
// "2.3 s", "12.3 ms": a duration above 0 never prints as 0.
std::string seconds(int64_t ns) {
  char out[32];
  if (ns >= 100'000'000)
    std::snprintf(out, sizeof out, "%.1f s", static_cast<double>(ns) * 1e-9);
  else if (ns >= 100'000)
    std::snprintf(out, sizeof out, "%.1f ms", static_cast<double>(ns) * 1e-6);
  else
    std::snprintf(out, sizeof out, "%.1f us", static_cast<double>(std::max<int64_t>(ns, 100)) * 1e-3);
  return out;
}
std::string ranks_text(const std::vector<int64_t>& ranks) {
  std::vector<std::string> words;
  for (int64_t rank : ranks) words.push_back(str(rank));
  return str(ranks.size() == 1 ? "rank " : "ranks ", join(words, ", "));
}

void print_end(const AttemptRecords& at, std::ostream& out) {
  out << at.run << ", attempt " << at.number << " of " << at.attempts << ", " << at.ranks.size()
      << (at.ranks.size() == 1 ? " rank" : " ranks") << ": "
      << (at.running                                ? "it runs; trainrun top shows it live"
          : !at.cause.empty() || !at.errors.empty() ? "failed"
                                                    : "no failure is recorded")
      << "\n";
  if (at.kept > 1)
    out << "attempts " << at.oldest << " to " << at.attempts << " are there: trainrun autopsy " << at.run
        << " --attempt K shows another one\n";
  if (!at.foreign.empty())
    out << "left out, with numbers of ranks that an attempt of so few files does not have: "
        << shortened(join(at.foreign, ", "), 200) << "\n";
  if (!at.cause.empty()) out << "root cause: " << at.cause << "\n";
  for (const ErrorRecord& error : at.errors)
    out << "  " << error.ticket << ". rank " << error.rank << ", " << error.kind
        << (error.step >= 0 ? str(", step ", error.step) : "") << ": "
        << shortened(message_at_step(error, error.message), 300) << "\n";
}

void print_ranks(const AttemptRecords& at, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"rank", "step", "phase", "last word", "collectives", "where"}};
  for (const RankRecord& rank : at.ranks) {
    if (!rank.log) {
      rows.push_back({str(rank.rank), "-", "-", "-", "-", rank.problem});
      continue;
    }
    const WorkerProgress& progress = rank.log->progress;
    const auto& entries = rank.log->entries;
    rows.push_back(
        {str(rank.rank), progress.step < 0 ? "-" : str(progress.step),
         progress.phase.empty() ? "-" : progress.phase,
         rank.last_ns == at.newest_ns ? "the last" : str("-", seconds(at.newest_ns - rank.last_ns)),
         entries.empty() ? "0" : str(entries.back().seq), whereabouts(*rank.log)});
  }
  out << "\n";
  print_cells(out, rows);
}

void print_meetings(const AttemptRecords& at, const std::vector<FlightLog>& logs, std::ostream& out) {
  const auto open = open_meetings(logs);
  for (const OpenMeeting& meeting : open) {
    out << "open: " << site_text(meeting.entry) << ", #" << meeting.entry.group_seq << " of group "
        << meeting.entry.group.name << ": " << ranks_text(meeting.there) << " entered it, the first "
        << (meeting.first_ns < at.newest_ns ? seconds(at.newest_ns - meeting.first_ns) + " before" : "with")
        << " the last word; ";
    if (meeting.missing.empty() && meeting.unknown == 0)
      out << "all came, and it did not end\n";
    else
      out << (meeting.missing.empty() ? str(meeting.unknown, " of its ranks") : ranks_text(meeting.missing))
          << " did not come\n";
  }
  if (open.empty()) out << "open: no collective; every one that a record holds has ended\n";
}

void print_first_difference(const std::vector<FlightLog>& logs, std::ostream& out) {
  if (const auto found = find_mismatch(logs)) {
    out << "first divergence: " << text(*found) << "\n";
    return;
  }
  size_t shortest = logs.empty() ? 0 : logs[0].entries.size();
  for (const FlightLog& log : logs) shortest = std::min(shortest, log.entries.size());
  out << "first divergence: none in the last " << shortest
      << " collectives of each rank: what both recorded, they started alike\n";
}
}  // namespace

int autopsy(const AutopsyArguments& arguments, std::ostream& out) {
  const AttemptRecords at = read_attempt(arguments.run, arguments.attempt);
  const auto logs = at.logs();
  print_end(at, out);
  print_ranks(at, out);
  out << "\n";
  print_meetings(at, logs, out);
  if (logs.size() > 1) print_first_difference(logs, out);
  out << "records: trainrun flight " << at.folder << "; logs: " << at.folder << "/rank-R.log"
      << (at.files.empty() ? "" : str("; checkpoints and metrics: ", at.files)) << "\n";
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
