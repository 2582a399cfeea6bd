// The variables LOCKSTEP_*, all at once: a wrong one is refused where a run starts, and not where it is read
// first.
#pragma once

namespace lockstep {

// UserError with the variable, its value and what it may be.
void check_environment();

}  // namespace lockstep
