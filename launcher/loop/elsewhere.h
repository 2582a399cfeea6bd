// Where a run keeps its checkpoints: in its folder, or where checkpoint.dir says.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// The folder of `ckpt` and `best`: the run's own, or DIR/NAME of checkpoint.dir.
std::string kept_in(const RunConfig& config, const std::string& run_dir);

// For those who name the run: writes its file ckpt.at, which says where `checkpoints` are; "": in the run's
// own folder, and there is no such file. UserError where it cannot be written.
void point_to(const std::string& run_dir, const std::string& checkpoints);

// In DIR/NAME of checkpoint.dir: the run folder whose checkpoints these are.
inline constexpr const char* kOwner = "ckpt.of";

// For one that holds the lock of its checkpoints: takes DIR/NAME for this run, by its file ckpt.of. UserError
// where it is another run's whose folder is still there; one that is gone, or has no such file, is taken.
// Nothing without checkpoint.dir.
void claim(const RunConfig& config, const std::string& run_dir);

// The lock of a folder of checkpoints, within seconds: ranks of a trainrun that was killed may save what they
// have before they end, on several hosts later than it. StorageError where it is held by others.
std::shared_ptr<checkpoint::FolderLock> lock_in_time(const std::string& folder,
                                                     const std::function<bool()>& stopped);

}  // namespace lockstep::launcher
