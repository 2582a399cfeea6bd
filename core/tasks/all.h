// The list of tasks, one line each, in the order of help and messages. NAME() returns the row, which the
// task's file defines.
#pragma once

#include "core/tasks/task.h"

// clang-format off
#define LOCKSTEP_TASKS(X) \
  X(causal_lm) \
  X(masked_lm) \
  X(seq2seq) \
  X(classification) \
  X(segmentation) \
  X(regression) \
  X(binary) \
  X(autoencoding) \
  X(adversarial)
// clang-format on

namespace lockstep::tasks {

#define LOCKSTEP_TASK_ROW(name) const Task& name();
LOCKSTEP_TASKS(LOCKSTEP_TASK_ROW)
#undef LOCKSTEP_TASK_ROW

}  // namespace lockstep::tasks
