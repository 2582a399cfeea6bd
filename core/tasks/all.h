// A line for each task: its row, which its file defines.
#pragma once

#include "core/tasks/task.h"

namespace lockstep::tasks {

const Task& causal_lm();
const Task& masked_lm();
const Task& seq2seq();
const Task& classification();
const Task& segmentation();
const Task& regression();
const Task& binary();
const Task& autoencoding();
const Task& adversarial();

}  // namespace lockstep::tasks
