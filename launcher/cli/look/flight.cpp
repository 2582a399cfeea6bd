// trainrun flight: prints the flight records of running or ended ranks as tables.
#include <algorithm>
#include <filesystem>
#include <ostream>
#include <vector>

#include "core/base/error.h"
#include "distributed/watch/flight_record.h"
#include "launcher/cli/commands.h"
#include "launcher/config/run_names.h"

namespace lockstep::launcher::cli {

int flight(const std::string& path, std::ostream& out) {
  std::vector<std::string> records;
  std::error_code none;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, none)))
    throw UserError(
        str("no flight record ", path,
            ": there is no such file or folder; name runs/NAME/logs/attempt-K, or one record in it",
            runs_instead_of(path.substr(0, path.find("/logs")))));
  if (!std::filesystem::is_directory(path, none)) {
    records.push_back(path);
  } else {
    for (int64_t rank = 0;; ++rank) {
      const std::string one = str(path, "/progress-", rank);
      if (!std::filesystem::is_symlink(one, none) && !std::filesystem::exists(one, none)) break;
      records.push_back(one);
    }
    if (records.empty())
      throw UserError(str(
          path, " holds no flight record (progress-R); name runs/NAME/logs/attempt-K, or one record in it"));
  }
  for (const auto& record : records) out << text(distributed::read_flight_log(record));
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
