// Gradients inside a step: of any value of a micro-batch with respect to any other, to any order, and
// functions whose gradient is written by hand.
#pragma once

#include <functional>
#include <vector>

#include "core/functions/losses.h"
#include "core/ops/op.h"

namespace lockstep {

// d(sum of y) / dx for each x: floats of the type of x, zeros where y does not read it. `y` and every `x` are
// values of one step: inputs, weights or results. The gradient belongs to the micro-batch, as y does, and is
// an ordinary value: it may be part of the loss and be differentiated again (second order: WGAN-GP, R1, score
// matching). An op whose gradient rule is written by hand is differentiated a second time through its
// expansion into primitives. UserError for an empty Tensor, an integer or no inputs; when the step is
// compiled, also for an op between x and y that has no gradient (with op and line).
std::vector<Tensor> grad(Tensor y, const std::vector<Tensor>& inputs, Here at = Here::current());
// sum of dy dy/dx, for a dy of the type of y: a vector-Jacobian product.
std::vector<Tensor> grad(Tensor y, const std::vector<Tensor>& inputs, Tensor dy, Here at = Here::current());
// d(loss.sum / count of all micro-batches) / dx for this micro-batch only, not summed over micro-batches. For
// a sum of losses, each term has its own count. Optimizers take the gradients of core/optim/gradients.h
// instead.
std::vector<Tensor> grad(const Loss& loss, const std::vector<Tensor>& inputs, Here at = Here::current());

// Result of a function's forward part: its outputs, and the values saved for its backward part.
struct Computed {
  std::vector<Tensor> outputs;
  std::vector<Tensor> saved = {};
};
using ForwardFunction = std::function<Computed(const std::vector<Tensor>& inputs)>;
// Returns one gradient per input, of its type; an empty Tensor is none. `gradients`: one per output, zeros if
// nothing reads it.
using BackwardFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& saved,
                                                           const std::vector<Tensor>& gradients)>;

// A traced function with a gradient of its own, as torch.autograd.Function.
class CustomGradient {
 public:
  CustomGradient(ForwardFunction forward, BackwardFunction backward);
  // The outputs of forward(inputs). Both functions are called once here and append nodes; nodes of `backward`
  // that no gradient needs are dropped. Gradients flow only to `inputs`, not to a weight that `forward` reads
  // directly. The gradient may be differentiated again, through the nodes of both. UserError when forward
  // returns no output or an output that is not a float. Also when backward returns another number of
  // gradients than inputs, a gradient of another type than its input, or one for an integer.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs, Here at = Here::current()) const;

 private:
  ForwardFunction forward_;
  BackwardFunction backward_;
};
CustomGradient custom_gradient(ForwardFunction forward, BackwardFunction backward);

// The gradient rule of the custom_gradient row. Its inputs are outputs, inputs, a placeholder per output for
// its gradient, and gradients. Its attributes are the counts of outputs and inputs, and `gradients`: for each
// input, whether it has one.
std::vector<Tensor> gradients_of_ones_own(const VjpContext& c);

}  // namespace lockstep
