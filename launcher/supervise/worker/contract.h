// The contract between trainrun and a worker: the worker's environment and the files of an attempt's folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

// A worker's place among the ranks, from RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE, or from the
// equivalents of mpirun or srun.
struct WorkerPlace {
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;        // position among the ranks of this host
  int64_t local_world_size = 1;  // ranks of this host
  std::string run_dir;           // absolute; empty when not started by trainrun
  std::string log_dir;           // absolute: runs/NAME/logs/attempt-K; empty when not started by trainrun
  // folder of checkpoints in this host's memory; empty when not started by trainrun
  std::string memory_dir;
  int64_t restart = 0;  // how often trainrun restarted the group
  bool supervised() const { return !log_dir.empty(); }
};

// Reads the environment. Order: Open MPI's variables, PMI's (srun), then RANK and its companions; a single
// rank without any. UserError when they are inconsistent (RANK not below WORLD_SIZE, RANK without WORLD_SIZE,
// not a number).
WorkerPlace worker_place();

// Sets RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE for child processes and loaded libraries.
void export_place(const WorkerPlace& place);

// A user program failed: an uncaught exception of its own, or an exit code that is not one of
// core/base/error.h.
inline constexpr int kExitProgram = 1;
inline constexpr const char* kProgramError = "ProgramError";

// Ranks that computed wrong, and whether the run continues without them.
struct WrongRanks {
  std::vector<int64_t> ranks;
  bool leave_out = false;
  std::string devices;  // on one host, CUDA_VISIBLE_DEVICES without their GPUs; "" without GPUs
};

// One failure of one rank, as it was caught.
struct ErrorRecord {
  int64_t rank = 0;
  std::string kind;  // "UserError", "PeerError", "InternalError", "ProgramError"
  std::string message;
  int64_t step = -1;                  // last step reported, -1 before the first
  int64_t time_ns = 0;                // wall clock, for people; the ticket gives the order
  int64_t ticket = 0;                 // 1 for the first failure of the attempt
  std::optional<WrongRanks> wrong{};  // of a PeerError that names ranks which computed wrong
};

// Takes the next ticket: writes the record to a private file, then links it as error-T.json for the first
// free T. So a record is complete or absent, and tickets are in link order. Returns T, or 0 when the folder
// cannot be written.
int64_t write_error_record(const std::string& log_dir, const ErrorRecord& record);
// The record as one tagged line for the stderr pipe to trainrun: it reports a cause even when the attempt's
// folder cannot be written. At most PIPE_BUF bytes, so that lines of several ranks do not mix; a longer
// message is cut.
std::string error_record_line(const ErrorRecord& record);
// The record of such a line; `before` gets the text before the tag. nullopt for any other line.
std::optional<ErrorRecord> parse_error_record_line(const std::string& line, std::string* before = nullptr);
// All records of an attempt in the order of their tickets; unreadable ones are skipped.
std::vector<ErrorRecord> read_error_records(const std::string& log_dir);

// Files of an attempt's folder.
std::string rank_log_file(const std::string& log_dir,
                          int64_t rank);  // rank-R.log: stdout and stderr of the rank
std::string worker_file(const std::string& log_dir,
                        int64_t rank);  // worker-R.json: pid, host; written once signals are handled
std::string stopped_file(const std::string& log_dir,
                         int64_t rank);             // stopped-R: the rank stopped on request, its state saved
std::string stop_file(const std::string& log_dir);  // stop: a rank was asked to stop during a validation
std::string regroup_file(
    const std::string& log_dir);  // regroup: trainrun stops the ranks to continue with a different set
std::string progress_file(const std::string& log_dir,
                          int64_t rank);  // progress-R: the rank's mapped progress word and flight record
std::string links_file(const std::string& log_dir,
                       int64_t rank);  // links-R: the rank's connections to other hosts (links.h)

}  // namespace lockstep::launcher
