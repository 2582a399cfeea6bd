// What trainrun and a worker agree on: the environment of a worker, and the files of an attempt's folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

// Where a worker stands. From RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, or from what mpirun or srun say
// of the same.
struct WorkerPlace {
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;        // position among the ranks of this host
  int64_t local_world_size = 1;  // ranks of this host
  std::string run_dir;           // absolute; empty when not started by trainrun
  std::string log_dir;           // absolute: runs/NAME/logs/attempt-K; empty when not started by trainrun
  std::string memory_dir;        // of checkpoints in this host's memory; empty when not started by trainrun
  int64_t restart = 0;           // how often trainrun restarted the group
  bool supervised() const { return !log_dir.empty(); }
};

// Reads the environment. Order: Open MPI's variables, PMI's (srun), then RANK and its companions; alone
// without any. UserError where they contradict each other (RANK not below WORLD_SIZE, RANK without
// WORLD_SIZE, no number).
WorkerPlace worker_place();

// Sets RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE for what this process starts or loads.
void export_place(const WorkerPlace& place);

// A program of the user's own failed: an exception of its own that nobody caught, or an exit code that is not
// one of core/base/error.h.
inline constexpr int kExitProgram = 1;
inline constexpr const char* kProgramError = "ProgramError";

// Ranks that computed wrong, and whether the run is to go on without them.
struct WrongRanks {
  std::vector<int64_t> ranks;
  bool leave_out = false;
  std::string devices;  // CUDA_VISIBLE_DEVICES of the one host without their GPUs; "" where it has none
};

// One failure of one rank, as it was caught.
struct ErrorRecord {
  int64_t rank = 0;
  std::string kind;  // "UserError", "PeerError", "InternalError", "ProgramError"
  std::string message;
  int64_t step = -1;                  // last step reported, -1 before the first
  int64_t time_ns = 0;                // wall clock, for people; the ticket gives the order
  int64_t ticket = 0;                 // 1 for the first failure of the attempt
  std::optional<WrongRanks> wrong{};  // of a PeerError that says who computed wrong
};

// Takes the next ticket: the record is written to a file of its own, then linked as error-T.json for the
// first free T, so that a record is whole or absent and the order is that of the links. Returns T, or 0 when
// the folder cannot be written.
int64_t write_error_record(const std::string& log_dir, const ErrorRecord& record);
// The record as one tagged line for the stderr that trainrun gave the rank: how a cause reaches the terminal
// where the attempt's folder is what broke. At most PIPE_BUF bytes, so that lines of several ranks stay
// apart; a longer message is cut.
std::string error_record_line(const ErrorRecord& record);
// The record of such a line; `before` gets what stands before the tag. Nothing for any other line.
std::optional<ErrorRecord> parse_error_record_line(const std::string& line, std::string* before = nullptr);
// All records of an attempt in the order of their tickets; unreadable ones are skipped.
std::vector<ErrorRecord> read_error_records(const std::string& log_dir);

// Files of an attempt's folder.
std::string rank_log_file(const std::string& log_dir,
                          int64_t rank);  // rank-R.log: stdout and stderr of the rank
std::string worker_file(const std::string& log_dir,
                        int64_t rank);  // worker-R.json: pid, host; written when signals are handled
std::string stopped_file(const std::string& log_dir,
                         int64_t rank);             // stopped-R: the rank stopped on request, its state saved
std::string stop_file(const std::string& log_dir);  // stop: a rank was asked to stop within a validation
std::string regroup_file(
    const std::string& log_dir);  // regroup: trainrun stops the ranks to go on with others
std::string progress_file(const std::string& log_dir,
                          int64_t rank);  // progress-R: the rank's mapped progress word and flight record
std::string links_file(const std::string& log_dir,
                       int64_t rank);  // links-R: the rank's connections to other hosts (links.h)

}  // namespace lockstep::launcher
