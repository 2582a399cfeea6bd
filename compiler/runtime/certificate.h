// The numerics certificate: a hash of everything that decides which bits a step computes.
#pragma once

#include <string>

#include "compiler/program/build/build.h"

namespace lockstep::compiler {

// hash(graphs, constants of the updates, kernels, library algorithms, the target's library_version(), tree,
// micro-batches, lanes, precision). It leaves out thread count, bucket size and the instruction set of our
// own kernels, because none of them changes a bit. The number of data ranks is included only if numerics are
// "free". Equal certificates promise equal bits.
std::string certificate_of(const StepPlan& plan, const StepBlocks& blocks, int data_ranks);

}  // namespace lockstep::compiler
