// The end of checkpoints in memory: what is newer than the disk's is kept there, and the memory is freed.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/storage/storage.h"

namespace lockstep::launcher {

// Copies the newest whole checkpoint of `memory`, where it is newer than all of `disk`, there, by the commit
// protocol. Its step; -1 where there is none. UserError where it cannot be written: the older ones are whole.
int64_t memory_to_disk(const std::string& memory, const std::string& disk,
                       checkpoint::Storage& storage = checkpoint::any_storage());

}  // namespace lockstep::launcher
