// Updates, on the host, of tables whose gradient has rows for a few ids and is 0 elsewhere.
#pragma once

#include "compiler/codegen/target.h"

namespace lockstep::compiler {

// See MultiTensorKernel::enqueue_by_rows. The kernel runs over pieces of the tables that fit in the L2 cache.
// The rows of a piece are written between zeros before the kernel runs, and removed afterwards. Bits do not
// depend on the pieces or on `threads`.
void update_by_rows(MultiTensorFn kernel, const ByRows& launch, int threads);

}  // namespace lockstep::compiler
