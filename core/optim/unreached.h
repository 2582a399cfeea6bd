// Finds parameters that no loss reaches; their zero gradients mean "no gradient".
#pragma once

#include <set>
#include <string>

#include "core/optim/gradients.h"

namespace lockstep {

// FQNs of parameters whose losses do not read them, or read them only through stop_gradient or through an
// input that a custom gradient omits. A parameter that a loss reads is reached even if its gradient is zero;
// so is one whose gradient is not from a loss. Sparse tables are not included, since grad() refuses unreached
// ones.
std::set<std::string> unreached(const Gradients& gradients);

}  // namespace lockstep
