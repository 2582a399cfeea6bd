// The numerics certificate: a hash of everything that decides which bits a step computes.
#pragma once

#include <string>

#include "compiler/program/build.h"

namespace lockstep::compiler {

// hash(graphs, constants of the updates, kernels, library algorithms, the target's library_version(), tree,
// micro-batches, lanes, precision). No thread count, bucket size or instruction set of our own kernels: none
// of them changes a bit. The number of data ranks is in it where numerics are "free" alone. Equal
// certificates promise equal bits.
std::string certificate_of(const StepPlan& plan, const StepBlocks& blocks, int data_ranks);

}  // namespace lockstep::compiler
