// Gives random numbers of tensors with several rows for each sample the place of their rows in the step.
#pragma once

#include "compiler/pass.h"

namespace lockstep::compiler {

// A draw numbers its elements from `sample`, the first row of its tensor among those of all micro-batches.
// That is rng.sample where dim 0 is the batch. Where dim 0 is larger, as of [batch tokens, width], it becomes
// rng.sample times the rows for each sample, rounded up. So no two micro-batches share numbers, and where the
// rows are as many for each sample, its numbers do not depend on the size of the micro-batch.
Graph number_rows(Graph graph, const PassContext& context);

}  // namespace lockstep::compiler
