// Numbers random draws by the place of their rows in the step, for tensors with several rows per sample.
#pragma once

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

// A draw numbers its elements from `sample`, the index of its first row among the rows of all micro-batches.
// That is rng.sample if dim 0 is the batch. If dim 0 is larger, such as [batch tokens, width], it becomes
// rng.sample times the rows per sample, rounded up. So no two micro-batches share numbers. If every sample
// has the same number of rows, its numbers do not depend on the size of the micro-batch.
Graph number_rows(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
