// Reads an attempt's folder; an unreadable file is reported and does not hide the others.
#include "launcher/cli/look/attempt_records.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/near_word.h"
#include "core/files/plain_file.h"
#include "core/reading/one_line.h"
#include "core/reading/sentence.h"
#include "core/reading/whole_number.h"
#include "launcher/supervise/folders/program.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/watch/late.h"

namespace lockstep::launcher::cli {

namespace fs = std::filesystem;

using namespace distributed;

namespace {
bool is_there(const std::string& path) {
  std::error_code none;
  return fs::is_symlink(path, none) || fs::exists(path, none);
}

// Ranks that left a file of any kind. Each has a log at least, so no number reaches that of the files: one
// that does is of somebody else's file, which is put among `foreign`.
int64_t ranks_of(const std::string& folder, std::vector<std::string>& foreign) {
  int64_t out = 0;
  std::error_code none;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder, none)) files.push_back(entry.path().filename());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files)
    for (const char* kind : {"rank-#", "worker-#", "progress-#", "stopped-#"}) {
      const auto found = find_sentence(file, kind);
      if (!found || found->begin != 0) continue;
      const std::string end = file.substr(found->end);
      const auto rank = whole_number(found->gaps[0]);
      if (!end.empty() && end != ".log" && end != ".json") continue;
      if (rank && *rank < static_cast<int64_t>(files.size()))
        out = std::max(out, *rank + 1);
      else
        foreign.push_back(file);
    }
  return out;
}

std::string cause_of(const std::string& folder) {
  std::string text, none;  // a missing file is skipped
  read_plain(folder + "/launcher.log", text, none);
  const std::string tag = "root cause: ";
  const size_t at = text.find(tag);
  return at == std::string::npos ? "" : text.substr(at + tag.size(), text.find('\n', at) - at - tag.size());
}

void refuse_unlisted(const std::string& folder) {
  if (const std::string why = unlisted_text(folder); !why.empty()) throw UserError(why);
}

// Whether a process holds the run's lock, as the kernel lists it; taking it to see could refuse a run its
// own.
bool is_held(const std::string& run) {
  struct stat at{};
  if (lstat((run + "/lock").c_str(), &at) != 0) return false;
  const std::string inode = str(":", at.st_ino);
  std::ifstream locks("/proc/locks");  // "1: FLOCK  ADVISORY  WRITE 31804 fe:00:5335290 0 EOF"
  for (std::string line; std::getline(locks, line);) {
    const size_t end = line.rfind(" 0 EOF");
    if (end != std::string::npos && line.find(" FLOCK ") != std::string::npos &&
        line.find("->") == std::string::npos && line.substr(0, end).ends_with(inode))
      return true;
  }
  return false;
}

RankRecord read_rank(const std::string& folder, int64_t rank) {
  RankRecord out;
  out.rank = rank;
  const std::string path = progress_file(folder, rank);
  if (!is_there(path)) {
    out.problem = "no record: it did not get as far as its first word";
    return out;
  }
  try {
    out.log = read_flight_log(path);
  } catch (const UserError& error) {
    out.problem = error.what();
    return out;
  }
  // A record that is a plain file belongs to a process that has ended, even if its id is in use again.
  std::error_code none;
  if (fs::is_symlink(path, none)) out.state = process_state(out.log->progress.pid);
  out.last_ns = out.log->progress.updated_ns;
  for (const FlightEntry& entry : out.log->entries)
    out.last_ns = std::max({out.last_ns, entry.start_ns, entry.end_ns});
  return out;
}
}  // namespace

std::vector<FlightLog> AttemptRecords::logs() const {
  std::vector<FlightLog> out;
  for (const RankRecord& rank : ranks)
    if (rank.log) out.push_back(*rank.log);
  return out;
}

std::string run_with_logs(const std::string& word) {
  std::error_code none;
  const auto has_logs = [&](const std::string& folder) {
    return fs::is_directory(folder + "/logs", none) || logs_of_program(folder);
  };
  const std::string clean = word.substr(0, word.find_last_not_of('/') + 1);
  if (clean.find('/') == std::string::npos && has_logs("runs/" + clean)) return "runs/" + clean;
  if (!clean.empty() && has_logs(clean)) return clean;
  for (const std::string& folder : {"runs/" + clean, clean}) refuse_unlisted(folder + "/logs");
  std::vector<std::string> known;
  for (const auto& entry : fs::directory_iterator("runs", none))
    if (has_logs(entry.path())) known.push_back(entry.path().filename());
  const std::string near = near_word(fs::path(clean).filename().string(), known);
  throw UserError(str("no run ", word, " that has logs",
                      near.empty() ? "" : str("; did you mean runs/", one_line(near), "?"),
                      near.empty() ? "; name it as runs/NAME, where it was started" : ""));
}

AttemptRecords read_attempt(const std::string& word, int64_t number) {
  AttemptRecords out;
  out.run = run_with_logs(word);
  const auto elsewhere = logs_of_program(out.run);
  out.files = elsewhere ? std::exchange(out.run, elsewhere->folder) : files_of_program(out.run);
  refuse_unlisted(out.run + "/logs");
  const auto there = attempts_there(out.run);
  if (there.empty()) throw UserError(str(out.run, "/logs holds no attempt; no rank of the run was started"));
  out.attempts = there.back(), out.oldest = there[0], out.kept = static_cast<int64_t>(there.size());
  out.number = number ? number : there.back();
  // A later attempt in trainrun's folder may belong to another run.
  std::error_code unknown;
  if (elsewhere && number == 0 && !fs::equivalent(files_of_program(out.run), out.files, unknown))
    out.number = elsewhere->attempt;
  if (!std::binary_search(there.begin(), there.end(), out.number))
    throw UserError(str("--attempt is ", number, ", and ", out.run, " has ",
                        there.size() == 1 ? str("attempt ", there[0], " alone")
                                          : str("attempts ", there[0], " to ", there.back())));
  out.folder = attempt_folder(out.run, out.number);
  refuse_unlisted(out.folder);
  for (int64_t rank = 0, n = ranks_of(out.folder, out.foreign); rank < n; ++rank) {
    out.ranks.push_back(read_rank(out.folder, rank));
    out.newest_ns = std::max(out.newest_ns, out.ranks.back().last_ns);
    out.running |= out.ranks.back().state != 0 && out.ranks.back().state != 'Z';
  }
  out.held = is_held(out.run);
  out.errors = read_error_records(out.folder);
  out.cause = cause_of(out.folder);
  return out;
}

std::string whereabouts(const FlightLog& log) {
  auto words = [](const char* how, const FlightEntry& entry) {
    return str(how, entry.verb, entry.label.empty() ? "" : str(" \"", entry.label, "\""), " of ",
               entry.group.name, entry.group_seq < 0 ? "" : str(", #", entry.group_seq));
  };
  for (const FlightEntry& entry : log.entries)
    if (entry.state == FlightState::started) return words("in ", entry);
  for (const FlightEntry& entry : log.entries)
    if (entry.state == FlightState::failed) return words("failed in ", entry);
  return log.entries.empty() ? "before its first collective" : words("behind ", log.entries.back());
}

std::vector<OpenMeeting> open_meetings(const std::vector<FlightLog>& logs) {
  std::map<std::pair<uint64_t, int>, int64_t> run_rank;  // by group and its rank
  std::map<std::pair<uint64_t, int>, int64_t> furthest;  // its last collective there
  for (const FlightLog& log : logs)
    for (const FlightEntry& entry : log.entries) {
      run_rank[{entry.group.key, entry.group.rank}] = log.progress.rank;
      int64_t& last = furthest.try_emplace({entry.group.key, entry.group.rank}, -1).first->second;
      last = std::max(last, entry.group_seq);
    }
  std::map<uint64_t, OpenMeeting> of_group;
  for (const FlightLog& log : logs)
    for (const FlightEntry& entry : log.entries) {
      const bool open = entry.state == FlightState::started || entry.state == FlightState::failed;
      if (!open || entry.group_seq < 0) continue;
      auto [at, fresh] = of_group.try_emplace(entry.group.key);
      OpenMeeting& meeting = at->second;
      if (!fresh && meeting.entry.group_seq < entry.group_seq) continue;
      if (fresh || entry.group_seq < meeting.entry.group_seq) {
        meeting = {};
        meeting.entry = entry, meeting.first_ns = entry.start_ns;
      }
      meeting.there.push_back(log.progress.rank);
      meeting.first_ns = std::min(meeting.first_ns, entry.start_ns);
      meeting.last_ns = std::max(meeting.last_ns, entry.start_ns);
    }
  std::vector<OpenMeeting> out;
  for (auto& [key, meeting] : of_group) {
    for (int r = 0; r < std::min(meeting.entry.group.size, kFlightRanks); ++r) {
      const auto last = furthest.find({key, r});
      if (last != furthest.end() && last->second >= meeting.entry.group_seq) continue;
      const auto known = run_rank.find({key, r});
      if (known != run_rank.end())
        meeting.missing.push_back(known->second);
      else if (meeting.entry.group.name == "world")
        meeting.missing.push_back(r);
      else
        ++meeting.unknown;
    }
    out.push_back(std::move(meeting));
  }
  std::sort(out.begin(), out.end(),
            [](const OpenMeeting& a, const OpenMeeting& b) { return a.first_ns < b.first_ns; });
  return out;
}

}  // namespace lockstep::launcher::cli
