// Gradients inside a step: of any value of a micro-batch with respect to any other, to any order, and
// functions whose gradient is written by hand.
#pragma once

#include <functional>
#include <vector>

#include "core/ops/functions/losses.h"
#include "core/ops/op.h"

namespace lockstep {

// d(sum of y) / dx for each x: floats of the type of x, zeros where y does not read it. `y` and every `x` are
// values of one step: its inputs, weights, what was computed. The gradient belongs to the micro-batch, as y
// does, and is a value like any other: it may be part of the loss, and be differentiated again (second order:
// WGAN-GP, R1, score matching). An op whose gradient rule is written by hand is differentiated a second time
// through its expansion into primitives.
// UserError for an empty Tensor, an integer, no inputs; and, before the step is compiled, where a row on the
// way from x to y has no gradient (with op and line).
std::vector<Tensor> grad(Tensor y, const std::vector<Tensor>& inputs, Here at = Here::current());
// sum of dy dy/dx, for a dy of the type of y: a vector-Jacobian product.
std::vector<Tensor> grad(Tensor y, const std::vector<Tensor>& inputs, Tensor dy, Here at = Here::current());
// d(loss.sum / count of all micro-batches) / dx, of this micro-batch's part alone: no sum over micro-batches
// is taken. Of a sum of losses, each term by its own count. What an optimizer takes are the gradients of
// parameters (core/optim/gradients.h).
std::vector<Tensor> grad(const Loss& loss, const std::vector<Tensor>& inputs, Here at = Here::current());

// What the forward part of a function computes: its outputs, and what its backward part reads of it.
struct Computed {
  std::vector<Tensor> outputs;
  std::vector<Tensor> saved = {};
};
using ForwardFunction = std::function<Computed(const std::vector<Tensor>& inputs)>;
// One gradient per input, of its type; an empty Tensor is none. `gradients`: one per output, zeros where
// nothing reads it.
using BackwardFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& saved,
                                                           const std::vector<Tensor>& gradients)>;

// A traced function with a gradient of its own, as torch.autograd.Function.
class CustomGradient {
 public:
  CustomGradient(ForwardFunction forward, BackwardFunction backward);
  // The outputs of forward(inputs). Both functions are called here, once each, and append nodes; those of
  // `backward` that no gradient needs are dropped. Gradients flow to `inputs` alone: a weight that `forward`
  // reads besides has none through it. The gradient may be differentiated again, through the nodes of both.
  // UserError when forward gives no output, or an output is no float, or when backward gives another number
  // of gradients than there are inputs, a gradient of another type than its input, or one for an integer.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs, Here at = Here::current()) const;

 private:
  ForwardFunction forward_;
  BackwardFunction backward_;
};
CustomGradient custom_gradient(ForwardFunction forward, BackwardFunction backward);

// The gradient rule of the custom_gradient row. Its inputs: outputs, inputs, one stand-in per output for its
// gradient, gradients. Its attributes count outputs and inputs; `gradients`: per input whether it has one.
std::vector<Tensor> gradients_of_ones_own(const VjpContext& c);

}  // namespace lockstep
