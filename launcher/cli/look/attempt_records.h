// The records of an attempt's ranks: flight records, errors and the launcher's log, during and after the
// attempt. A flight record is a rank's mapped file of its latest collectives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "distributed/watch/flight_record.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher::cli {

struct RankRecord {
  int64_t rank = 0;
  std::optional<distributed::FlightLog> log;
  std::string problem;  // why there is no record
  char state = 0;       // of its process, as process_state; 0: no process
  int64_t last_ns = 0;  // time of the last write to its record, or of its heartbeat
};

struct AttemptRecords {
  std::string run, folder;  // runs/NAME, runs/NAME/logs/attempt-K
  std::string files;        // the program's own folder with checkpoints and metrics; "": they are in `run`
  int64_t number = 0, attempts = 0;  // its number, and that of the newest
  int64_t oldest = 0, kept = 0;      // the oldest existing folder, and the number of existing folders
  std::vector<RankRecord> ranks;
  std::vector<std::string> foreign;  // files with the number of a rank that the attempt does not have
  std::vector<ErrorRecord> errors;   // in their order
  std::string cause;                 // as the launcher reported it; else ""
  bool running = false;              // a rank's process exists
  bool held = false;                 // a trainrun holds the run's folder: it runs, or restarts ranks
  int64_t newest_ns = 0;             // the newest time in the records; steady clock

  std::vector<distributed::FlightLog> logs() const;
};

// The folder of a run with logs or a pointer to them: runs/WORD, or a path. UserError naming the nearest run.
std::string run_with_logs(const std::string& word);
// Attempt `number` (0: the newest; of a folder of a program's own, the newest that wrote into it). UserError
// where there is none, and where its logs cannot be read.
AttemptRecords read_attempt(const std::string& word, int64_t number = 0);

// The position of a rank: "in all_reduce "count" of world, #12", "behind all_gather "x" of world, #4".
std::string whereabouts(const distributed::FlightLog& log);

// A collective that some ranks entered and none left, and the missing ranks.
struct OpenMeeting {
  distributed::FlightEntry entry;       // as recorded by one of the ranks that entered it
  std::vector<int64_t> there, missing;  // ranks of the run; missing ranks without a record are left out
  int unknown = 0;                      // the number of those left out
  int64_t first_ns = 0, last_ns = 0;    // when the first and the last one entered it
};
// For each group, the oldest one that did not succeed for the ranks that entered it.
std::vector<OpenMeeting> open_meetings(const std::vector<distributed::FlightLog>& logs);

}  // namespace lockstep::launcher::cli
