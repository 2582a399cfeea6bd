// Checks of a step program: what a rank may not do.
#pragma once

#include "compiler/program/program.h"

namespace lockstep {

// InternalError naming the instruction and the user's line where an instruction reads what is still in
// flight, writes what a collective in flight reads or writes, reads what nothing wrote, waits for what was
// not started, starts what nothing waits for, waits twice, or leaves its region.
void verify(const StepProgram& program);
// The collectives of all ranks of a group agree: on each mesh dim, the ranks that differ along it alone start
// the same verbs, labels and dtypes in the same order, and what one sends another receives. `programs`: of
// all ranks of `mesh`, in order; `seats` as ProgramRank. InternalError naming both ranks.
void verify_together(const std::vector<StepProgram>& programs, const Mesh& mesh, int seats);

}  // namespace lockstep
