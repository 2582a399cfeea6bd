// Describes what load.partial left out.
#pragma once

#include "checkpoint/checkpoint.h"

namespace lockstep::launcher {

// Warns how many tensors were loaded, and which were not, grouped by the consequence.
void tell_left(const checkpoint::LoadedInfo& loaded, const checkpoint::LeftOut& left);

}  // namespace lockstep::launcher
