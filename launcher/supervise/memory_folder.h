// The folder of a run's checkpoints in this host's memory: its name, and its end.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher {

// /dev/shm/lockstep-memory.UID.NAME.ID. ID is a random word that the run's folder keeps (memory-id, beside
// its lock), so that a later run of that name has another one; a copy of the folder has another one, too, as
// long as the first is there. trainrun names it, ranks make it when they first save there
// (launcher/loop/memory_tier.h), trainrun removes it. One that is there already was left by a trainrun that
// was killed: the run goes on from it where it is newer than what is on the disk.
std::string memory_folder_of(const std::string& run_dir);

// Makes the folder, 0700, with the path of its run in it. UserError where it cannot be made, or belongs to
// another user, or others may enter it.
void make_memory_folder(const std::string& folder, const std::string& run_dir);

// Removes the checkpoints that are in it, and the folder if nothing else is, unless a process holds its lock:
// a run that lives. What is left, and why, or "".
std::string remove_memory_folder(const std::string& folder);

// Removes below `top` what runs of this user left whose folder is gone, or has another ID, and which no
// process holds. Returns how many.
int remove_forgotten_memory(const std::string& top = "/dev/shm");

// The highest N of FOLDER/step-N, -1 for none.
int64_t newest_step_in(const std::string& folder);

}  // namespace lockstep::launcher
