// The file ckpt.at of a run folder, written and removed.
#include "launcher/loop/elsewhere.h"

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "launcher/supervise/run_folder.h"

namespace lockstep::launcher {

std::string kept_in(const RunConfig& config, const std::string& run_dir) {
  const std::string& dir = config.checkpoint.dir;
  return dir.empty() ? run_dir : dir.substr(0, dir.find_last_not_of('/') + 1) + "/" + config.name;
}

void point_to(const std::string& run_dir, const std::string& checkpoints) {
  const std::string pointer = run_dir + "/" + checkpoint::kElsewhere;
  if (!checkpoints.empty()) return write_whole(pointer, checkpoints + "\n");
  std::error_code none;
  std::filesystem::remove(pointer, none);
}

}  // namespace lockstep::launcher
