// The place of a run's checkpoints: in its folder, or in checkpoint.dir.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// The folder of `ckpt` and `best`: the run's own, or DIR/NAME of checkpoint.dir.
std::string kept_in(const RunConfig& config, const std::string& run_dir);

// Writes the run's file ckpt.at, which names the folder `checkpoints` for commands that are given the run;
// "": removes it, because they are in the run's folder. UserError when it cannot be written.
void point_to(const std::string& run_dir, const std::string& checkpoints);

// In DIR/NAME of checkpoint.dir: the run folder whose checkpoints these are.
inline constexpr const char* kOwner = "ckpt.of";

// Claims DIR/NAME for this run with a file ckpt.of; the caller holds the lock of the checkpoints. UserError
// when it belongs to another run whose folder still exists; otherwise it is taken over. Does nothing without
// checkpoint.dir.
void claim(const RunConfig& config, const std::string& run_dir);

// Takes the lock of a checkpoint folder, waiting a few seconds: ranks of a killed trainrun may still save
// before they end, on several hosts later than trainrun itself. StorageError when another process keeps it.
std::shared_ptr<checkpoint::FolderLock> lock_in_time(const std::string& folder,
                                                     const std::function<bool()>& stopped);

}  // namespace lockstep::launcher
