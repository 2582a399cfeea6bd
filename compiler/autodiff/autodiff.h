// Differentiate: replaces each `grad` and `vjp` node by reverse-mode autodiff over the op table, so that
// forward and backward are one graph.
#pragma once

#include "compiler/pass.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

// grad(sum, count, params...) becomes: the seed 1 / (count summed over micro-batches) for d(sum), for each
// sum of several terms that of its own count, the vjp of every node between the parameters and the loss in
// reverse order, and sum_lanes of each parameter's gradient. A parameter that the loss does not read gets
// zeros. vjp(y, dy, inputs...) becomes the vjp of every node between them, in the place where it stands: what
// reads it is differentiated through it, so that a gradient of a gradient is nothing special. A row without a
// gradient rule, and one whose statistics have a gradient, is differentiated through its expansion. The marks
// of custom_gradient are gone afterwards. UserError naming op and line when a row on the way has no gradient.
Graph differentiate(Graph graph, const PassContext& context);

// A value and its gradient.
struct Seed {
  ValueId of;
  Tensor gradient;
};
// Gradients of these values, added, with respect to `roots`, appended to the builder's graph. An empty Tensor
// where there is none.
std::vector<Tensor> vjp_graph(const std::shared_ptr<Builder>& builder, const std::vector<Seed>& seeds,
                              const std::vector<ValueId>& roots);
inline std::vector<Tensor> vjp_graph(const std::shared_ptr<Builder>& builder, ValueId of, Tensor seed,
                                     const std::vector<ValueId>& roots) {
  return vjp_graph(builder, {{of, seed}}, roots);
}

}  // namespace lockstep::compiler
