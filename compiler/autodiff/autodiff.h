// Differentiate: replaces each `grad` and `vjp` node with reverse-mode autodiff over the op table. Forward
// and backward then form one graph.
#pragma once

#include "compiler/pass/pass.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

// grad(sum, count, params...) becomes:
//   - the seed of d(sum): 1 / (count summed over micro-batches); each of several terms has its own count;
//   - the vjp of every node between the parameters and the loss, in reverse order;
//   - sum_lanes of each parameter's gradient; zeros for a parameter that the loss does not read.
// vjp(y, dy, inputs...) becomes the vjp of every node between y and the inputs, at the place of the vjp node.
// Its readers are differentiated through it, so a gradient of a gradient needs no special case.
// An op without a gradient rule, or whose statistics have a gradient, is differentiated through its
// expansion. The marks of custom_gradient are removed. UserError naming op and line when an op on the path
// has no gradient.
Graph differentiate(Graph graph, const PassContext& context);

// A value and its gradient.
struct Seed {
  ValueId of;
  Tensor gradient;
};
// Appends the gradients with respect to `roots`, added over all seeds, to the builder's graph. A root without
// a gradient gets an empty Tensor.
std::vector<Tensor> vjp_graph(const std::shared_ptr<Builder>& builder, const std::vector<Seed>& seeds,
                              const std::vector<ValueId>& roots);
inline std::vector<Tensor> vjp_graph(const std::shared_ptr<Builder>& builder, ValueId of, Tensor seed,
                                     const std::vector<ValueId>& roots) {
  return vjp_graph(builder, {{of, seed}}, roots);
}

}  // namespace lockstep::compiler
