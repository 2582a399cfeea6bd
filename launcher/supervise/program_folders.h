// The two folders of a program's run: trainrun's, with the logs, and the program's own, with checkpoints and
// metrics. A file in each says where the other is, for those who name one of them.
#pragma once

#include <optional>
#include <string>

#include "launcher/supervise/contract.h"

namespace lockstep::launcher {

inline constexpr const char* kFilesAt = "run.at";  // in trainrun's folder
inline constexpr const char* kLogsAt = "logs.at";  // in the program's own

// For rank 0 of a program that writes into `run`: writes both files. Where trainrun's folder is `run` itself,
// removes them; without trainrun, leaves them. They are for people: where one cannot be written, it is not
// there.
void name_each_other(const WorkerPlace& place, const std::string& run);

// The program's folder that run.at of trainrun's folder names; "" where there is no such file.
std::string files_of_program(const std::string& folder);

// Whose logs logs.at of a program's folder names: trainrun's folder, and the attempt. Nothing where there is
// no such file, or these logs are not there.
struct ProgramLogs {
  std::string folder;
  int64_t attempt = 0;
};
std::optional<ProgramLogs> logs_of_program(const std::string& run);

}  // namespace lockstep::launcher
