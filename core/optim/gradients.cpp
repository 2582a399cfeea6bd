// The `grad` node.
#include "core/optim/gradients.h"

#include "core/base/error.h"
#include "core/nn/scope.h"

namespace lockstep {

Gradients grad(const Loss& loss, const std::vector<Parameter>& parameters, Here at) {
  auto fail = [&](const std::string& what) {
    throw UserError(str("[grad] ", line_of(at).text(), ": ", what));
  };
  if (!loss.sum.defined() || !loss.count.defined())
    fail("the loss has no sum or no count; pass what cross_entropy gives");
  if (parameters.empty())
    fail("there are no parameters; construct the model before, and pass state.parameters()");
  std::vector<Tensor> inputs{loss.sum, loss.count};
  const std::string& scaled_by = loss.sum.builder()->loss_scale;
  if (!scaled_by.empty()) {
    const auto& builder = loss.sum.builder();
    const Tensor scale(builder, builder->state_input(scaled_by, DType::f32, {1}));
    inputs.push_back(reshape(scale, {}, at));
  }
  for (const Parameter& parameter : parameters) inputs.push_back(parameter(loss.sum));
  return {parameters, apply(ops::grad, inputs, scaled_by.empty() ? Attrs{} : Attrs{{"scaled", true}}, at)};
}

}  // namespace lockstep
