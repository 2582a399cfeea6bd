// DamagedError: a checkpoint is not what was written. (A UserError means that it is intact but does not fit.)
#pragma once

#include "core/base/error.h"

namespace lockstep::checkpoint {

// Bytes are missing, changed or contradict each other. load_latest falls back to an older checkpoint on this
// error, and on no other.
class DamagedError : public UserError {
 public:
  using UserError::UserError;
};

// The step folder does not exist, or no longer does: a run removes its old checkpoints while others read.
// Nothing is damaged.
class VanishedError : public DamagedError {
 public:
  using DamagedError::DamagedError;
};

}  // namespace lockstep::checkpoint
