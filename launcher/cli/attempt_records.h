// The records of an attempt's ranks: flight records, errors and the launcher's words, while it runs and after
// its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "distributed/watch/flight_record.h"
#include "launcher/supervise/contract.h"

namespace lockstep::launcher::cli {

struct RankRecord {
  int64_t rank = 0;
  std::optional<distributed::FlightLog> log;
  std::string problem;  // why there is none
  char state = 0;       // of its process, as process_state; 0: there is none
  int64_t last_ns = 0;  // when it last wrote into its record, the heart beside
};

struct AttemptRecords {
  std::string run, folder;  // runs/NAME, runs/NAME/logs/attempt-K
  std::string files;  // the folder of a program's own with its checkpoints and metrics; "": `run` has them
  int64_t number = 0, attempts = 0;  // which one, and the newest
  int64_t oldest = 0, kept = 0;      // of those whose folders are there, and how many these are
  std::vector<RankRecord> ranks;
  std::vector<ErrorRecord> errors;  // in their order
  std::string cause;                // as the launcher said it; ""
  bool running = false;             // a rank's process is there
  bool held = false;                // a trainrun holds the run's folder: it runs, or starts ranks again
  int64_t newest_ns = 0;            // the newest time in the records; steady clock

  std::vector<distributed::FlightLog> logs() const;
};

// The folder of a run that has logs, or says where they are: runs/WORD, or a path. UserError naming the
// nearest run.
std::string run_with_logs(const std::string& word);
// Attempt `number` (0: the newest; of a folder of a program's own, the newest that wrote into it). UserError
// where there is none, and where its logs cannot be read.
AttemptRecords read_attempt(const std::string& word, int64_t number = 0);

// Where a rank is, or was: "in all_reduce "count" of world, #12", "behind all_gather "x" of world, #4".
std::string whereabouts(const distributed::FlightLog& log);

// A collective that ranks entered and none left, and who did not come.
struct OpenMeeting {
  distributed::FlightEntry entry;       // as one of those who entered it has it
  std::vector<int64_t> there, missing;  // ranks of the run; a missing one that no record names is left out
  int unknown = 0;                      // how many of these there are
  int64_t first_ns = 0, last_ns = 0;    // when the first and the last one entered it
};
// The oldest one of each group that did not end well for those who entered it.
std::vector<OpenMeeting> open_meetings(const std::vector<distributed::FlightLog>& logs);

}  // namespace lockstep::launcher::cli
