// Differentiate: replaces each `grad` node by reverse-mode autodiff over the op table, so that forward and
// backward are one graph.
#pragma once

#include "compiler/pass.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

// grad(sum, count, params...) becomes: the seed 1 / (count summed over micro-batches) for d(sum), the vjp of
// every node between the parameters and the loss in reverse order, and sum_lanes of each parameter's
// gradient. A parameter that the loss does not read gets zeros. UserError naming op and line when a row on
// the way has no gradient.
Graph differentiate(Graph graph, const PassContext& context);

// Gradients of `of` with respect to `roots`, appended to the builder's graph; `seed` is d(of). An empty
// Tensor where there is none.
std::vector<Tensor> vjp_graph(const std::shared_ptr<Builder>& builder, ValueId of, Tensor seed,
                              const std::vector<ValueId>& roots);

}  // namespace lockstep::compiler
