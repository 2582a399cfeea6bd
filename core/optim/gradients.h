// Gradients of a loss: what an optimizer takes.
#pragma once

#include <vector>

#include "core/nn/parameter.h"
#include "core/ops/functions.h"

namespace lockstep {

// One gradient per parameter, of its type, summed over all micro-batches; whole, as far as the step function
// can tell.
struct Gradients {
  std::vector<Parameter> parameters;
  std::vector<Tensor> values;
};

// Gradients of loss.sum / loss.count (both summed over all micro-batches): one `grad` node, which autodiff
// expands. A parameter that the loss does not read gets zeros. UserError when the loss is empty or there are
// no parameters.
Gradients grad(const Loss& loss, const std::vector<Parameter>& parameters, Here at = Here::current());

}  // namespace lockstep
