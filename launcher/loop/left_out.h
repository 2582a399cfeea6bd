// What load.partial left, in words.
#pragma once

#include "checkpoint/checkpoint.h"

namespace lockstep::launcher {

// Warns: how many tensors are loaded, and which are not, by what becomes of them.
void tell_left(const checkpoint::LoadedInfo& loaded, const checkpoint::LeftOut& left);

}  // namespace lockstep::launcher
