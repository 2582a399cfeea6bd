// Lent memory: one step uses the memory of another step of the same state that never runs at the same time.
#pragma once

#include <vector>

#include "compiler/program/words/program.h"

namespace lockstep::compiler {

// Per region of `guest`: its place in the device arenas of `lender`, whose steps never run at the same time.
// An absent span means that the region has its own memory. An arena stores nothing between two runs, so the
// guest's arenas may be placed there. If the guest updates no state, it rounds and gathers everything anew in
// each run, so its values and sums may, too. Regions are placed largest first, each at the first free place.
std::vector<Span> lent_places(const StepProgram& guest, const StepProgram& lender);
int64_t lent_bytes(const StepProgram& guest, const StepProgram& lender);  // of the placed regions

}  // namespace lockstep::compiler
