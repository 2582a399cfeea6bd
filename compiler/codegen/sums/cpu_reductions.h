// The CPU's Reductions: loops over blocks that fit in the L1 cache, on OpenMP threads.
#pragma once

#include <memory>

#include "compiler/codegen/target.h"

namespace lockstep::compiler {

// Work runs on the given stream with `threads` threads; tables are copied before a call returns. Bits do not
// depend on `threads`. Scratch belongs to the object: use it on one stream at a time. InternalError if the
// merges of a Sum do not form one tree of its sources, or if an addend of limbs() is negative.
//
// The sum of squares of a row: blocks of 2048 elements are added left to right; each block is added as
// LaneKernels::squares adds.
std::unique_ptr<Reductions> make_cpu_reductions(int threads);

}  // namespace lockstep::compiler
