// Parameters that no loss reaches: their gradients are zeros that stand for none.
#pragma once

#include <set>
#include <string>

#include "core/optim/gradients.h"

namespace lockstep {

// FQNs of parameters whose gradient comes of losses that do not read them, or only behind stop_gradient or as
// what a gradient of one's own leaves out. A zero gradient of one that a loss reads is a gradient, and so is
// one that comes of no loss. Sparse tables are none of these: grad() refuses such.
std::set<std::string> unreached(const Gradients& gradients);

}  // namespace lockstep
