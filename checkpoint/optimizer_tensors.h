// Which tensors of a checkpoint are of its optimizers: no manifest says it, their names do.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"

namespace lockstep::checkpoint {

// FQNs of an optimizer's state: its moments have the name of a weight in theirs ("optim.W.exp_avg"), and what
// stands beside them under the same path ("optim") is its own, too.
std::vector<std::string> optimizer_tensors(const Manifest& manifest);

}  // namespace lockstep::checkpoint
