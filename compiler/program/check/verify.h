// Checks of a step program: what a rank must not do.
#pragma once

#include "compiler/program/words/program.h"

namespace lockstep::compiler {

// InternalError naming the instruction and the user's line if an instruction
//   - leaves its region, reads what is still in flight, or writes what a collective in flight reads or
//     writes;
//   - waits for what was not started, waits twice, or starts what nothing waits for;
//   - reads what nothing wrote;
//   - takes an addend that was taken already, that is not an addend, or that was read as a result; or
//     overwrites one that nothing took. Addends are gradients and counts of a micro-batch when its block has
//     them ready, partial sums, and what ranks send of them. So each is added exactly once, and none is lost.
//     There are three exceptions: later calls of its block may read a gradient; two tensors may share one if
//     it is their sum; a count may be added to several totals;
//   - finds the largest magnitude where the target is not zero, or was read since it was zeroed;
//   - runs calls of a block out of order, twice for a micro-batch (except in the refresh), not to their end,
//     without the weights that they read, or before the seed has made what they read;
//   - accesses host memory other than by copies, or updates in a copy what was not brought there or is being
//     updated;
//   - runs a call of the body when a waiting value is not gone, or not back (ValuesAway);
//   - updates a tensor twice, gathers weights from before their update, or compares replicas after it.
// InternalError, too, if nothing adds to a count or vote, or if nothing writes a value that the step's caller
// reads.
void verify(const StepProgram& program);
// Checks that the collectives of all ranks of a group agree. On each mesh dim, ranks that differ only along
// it must start the same verbs, labels and dtypes in the same order, gather the same tensors, and receive
// what others send. `programs`: of all ranks of `mesh`, in order; `seats` as in ProgramRank. InternalError
// naming both ranks.
void verify_together(const std::vector<StepProgram>& programs, const Mesh& mesh, int seats);

}  // namespace lockstep::compiler
