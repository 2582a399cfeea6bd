// The CPU's Reductions: loops over blocks that stay in the first cache, on OpenMP threads.
#pragma once

#include <memory>

#include "compiler/codegen/target.h"

namespace lockstep::compiler {

// Work runs on the stream it is given, `threads` wide; tables are copied before a call returns. No bit
// depends on `threads`. Scratch is the object's own: use it on one stream at a time. InternalError where a
// Sum's merges do not make one tree of its sources, or an addend of limbs() is negative.
//
// The sum of squares of a row: blocks of 2048 elements added left to right, each as LaneKernels::squares
// adds.
std::unique_ptr<Reductions> make_cpu_reductions(int threads);

}  // namespace lockstep::compiler
