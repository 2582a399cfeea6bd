// Steps of one state run in turns: what a step keeps for itself while it runs, another one may use before and
// after.
#pragma once

#include <vector>

#include "compiler/program/program.h"

namespace lockstep::compiler {

// Per region of `guest`: where it lies in the arenas that `lender`, whose steps never run at the same time,
// has on its device. A span that is not there says that the region has memory of its own. An arena holds
// nothing between two runs, so the guest's arenas may lie there, and of a guest that updates no state, which
// rounds and gathers all anew in each run, its values and sums, too. The largest region comes first, each at
// the first place that has room.
std::vector<Span> lent_places(const StepProgram& guest, const StepProgram& lender);
int64_t lent_bytes(const StepProgram& guest, const StepProgram& lender);  // of the regions that lie there

}  // namespace lockstep::compiler
