// Ends the use of checkpoints in memory: saves one that is newer than the disk's, and frees the memory.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/storage/storage.h"

namespace lockstep::launcher {

// Copies the newest intact checkpoint of `memory` to `disk` by the commit protocol if it is newer than all
// there. Returns its step; -1 if none. UserError when it cannot be written; the older ones stay intact.
int64_t memory_to_disk(const std::string& memory, const std::string& disk,
                       checkpoint::Storage& storage = checkpoint::any_storage());

}  // namespace lockstep::launcher
