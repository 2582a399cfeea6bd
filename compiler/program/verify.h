// Checks of a step program: what a rank may not do.
#pragma once

#include "compiler/program/program.h"

namespace lockstep::compiler {

// InternalError naming the instruction and the user's line where an instruction
// - leaves its region, reads what is still in flight, writes what a collective in flight reads or writes,
// waits
//   for what was not started, starts what nothing waits for, waits twice;
// - reads what nothing wrote;
// - takes an addend that was taken already, that is no addend, or that was read as a result; or writes over
// one
//   that nothing took. Addends are gradients and counts of a micro-batch, where its block has them ready,
//   partial sums, and what ranks send of them; so each is added exactly once, and none is lost. A gradient
//   may be read by later calls of its block, two tensors may have one where it is their sum, and a count may
//   go to several totals;
// - finds the largest of what is not zero, or was read since it was;
// - runs calls of a block out of order, a second time for a micro-batch (the refresh apart), not to their
// end,
//   without the weights that they read, or before the seed has made what they read;
// - reaches memory of the host but by copies, or updates in a copy what was not brought there or is updated;
// - runs a call of the body where a value that waits on the host is not gone, or not back (ValuesAway);
// - updates a tensor twice, brings weights from before their update, or compares replicas behind it;
// and where nothing adds to a count or vote, or writes what the step's caller reads.
void verify(const StepProgram& program);
// The collectives of all ranks of a group agree: on each mesh dim, the ranks that differ along it alone start
// the same verbs, labels and dtypes in the same order, gather the same tensors, and what one sends another
// receives. `programs`: of all ranks of `mesh`, in order; `seats` as ProgramRank. InternalError naming both
// ranks.
void verify_together(const std::vector<StepProgram>& programs, const Mesh& mesh, int seats);

}  // namespace lockstep::compiler
