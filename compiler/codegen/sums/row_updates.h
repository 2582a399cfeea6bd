// Updates of tables whose gradient has rows for a few ids and is 0 elsewhere, on the host.
#pragma once

#include "compiler/codegen/target.h"

namespace lockstep::compiler {

// See MultiTensorKernel::enqueue_by_rows. The kernel runs over pieces of the tables that stay in the second
// cache; the rows of a piece are put between zeros before it runs, and taken out behind it. No bit depends on
// the pieces or on `threads`.
void update_by_rows(MultiTensorFn kernel, const ByRows& launch, int threads);

}  // namespace lockstep::compiler
