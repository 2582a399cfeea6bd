// The folder of a run's checkpoints in this host's memory: its name, creation and removal.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher {

// /dev/shm/lockstep-memory.UID.NAME.ID. ID is a random word stored in the run's folder (memory-id, next to
// its lock), so that a later run of that name has another one. A copy of the folder also gets a new ID while
// the first exists. trainrun chooses the name, ranks create the folder at their first save
// (launcher/loop/saves/memory_tier.h), trainrun removes it. An existing one was left by a killed trainrun: the run
// resumes from it if it is newer than the disk's checkpoint.
std::string memory_folder_of(const std::string& run_dir);

// Creates the folder, 0700, with a file `run`: the path of its run, and the mount namespace and root in
// which that path holds. UserError when the folder cannot be created, belongs to another user, or is
// accessible to others.
void make_memory_folder(const std::string& folder, const std::string& run_dir);

// Removes its checkpoints, and the folder if it is then empty, unless a live run holds its lock. Returns what
// is left and why, or "".
std::string remove_memory_folder(const std::string& folder);

// Removes memory folders below `top` that belong to this user, whose run folder is gone or has another ID,
// and that no process holds. Where another container or chroot made one, its run's folder cannot be seen: such
// a folder is removed after a day without a save. Returns their number.
int remove_forgotten_memory(const std::string& top = "/dev/shm");

// The highest N of FOLDER/step-N, -1 for none.
int64_t newest_step_in(const std::string& folder);

}  // namespace lockstep::launcher
