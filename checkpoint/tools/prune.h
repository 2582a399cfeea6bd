// Removes old checkpoints on request, and reports which go, which stay, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

struct PruneRule {
  int keep = 1;       // the newest so many whole ones stay; at least 1
  int64_t every = 0;  // and each whose step is a multiple of this; 0: none by its step
  bool only_tell = false;
};
struct PrunedStep {
  std::string path;
  int64_t step = 0, bytes = 0;  // of all its files
  bool removed = false;         // or would be, with only_tell
  std::string why;              // it stays: "newest 2", "every 100", "damaged: ..."
};

// The step folders of `dir`, newest first. The newest one is read whole (verify_checkpoint), and so are those
// after it until one is found to be whole, so that a run can always go on; damaged ones are neither counted
// nor touched. Takes the folder's lock but for only_tell. UserError for keep < 1 and every < 0, where there
// is no checkpoint, where none is whole, and where a run holds the folder.
std::vector<PrunedStep> prune_checkpoints(const std::string& dir, const PruneRule& rule,
                                          Storage& storage = any_storage());

}  // namespace lockstep::checkpoint
