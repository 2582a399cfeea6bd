// The two folders of a program's run: trainrun's, with the logs, and the program's own, with checkpoints and
// metrics. A file in each names the other, so that commands accept either.
#pragma once

#include <optional>
#include <string>

#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

inline constexpr const char* kFilesAt = "run.at";  // in trainrun's folder
inline constexpr const char* kLogsAt = "logs.at";  // in the program's own

// For rank 0 of a program that writes into `run`: writes both files. If trainrun's folder is `run` itself,
// removes them; without trainrun, leaves them. They are only a convenience: a failed write is ignored.
void name_each_other(const WorkerPlace& place, const std::string& run);

// The program's folder, from run.at in trainrun's folder; "" without such a file.
std::string files_of_program(const std::string& folder);

// trainrun's folder and the attempt, from logs.at in a program's folder. nullopt when the file or the logs
// are missing.
struct ProgramLogs {
  std::string folder;
  int64_t attempt = 0;
};
std::optional<ProgramLogs> logs_of_program(const std::string& run);

}  // namespace lockstep::launcher
