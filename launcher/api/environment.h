// Checks all LOCKSTEP_* variables at the start of a run, before any of them is used.
#pragma once

namespace lockstep {

// UserError with the variable, its value and the allowed values.
void check_environment();

}  // namespace lockstep
