// Finds the optimizer tensors of a checkpoint by their names; the manifest does not mark them.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"

namespace lockstep::checkpoint {

// FQNs of an optimizer's state. The name of a moment contains the name of a weight ("optim.W.exp_avg"); other
// tensors under the same path ("optim") belong to the optimizer too.
std::vector<std::string> optimizer_tensors(const Manifest& manifest);

}  // namespace lockstep::checkpoint
