// Assignments as outputs of the graph.
#include "core/nn/assign.h"

#include "core/base/error.h"
#include "core/nn/scope.h"
#include "core/ops/count_metric.h"
#include "core/ops/precision.h"

namespace lockstep {

void assign(const Parameter& parameter, Tensor value, Here at) {
  auto fail = [&](const std::string& what) {
    throw UserError(str("[assign] ", line_of(at).text(), ": \"", parameter.fqn(), "\" ", what));
  };
  if (!value.defined()) fail("is assigned an empty Tensor");
  if (has_policy(value) && is_float(parameter.dtype()) &&
      (value.dtype() == DType::bf16 || value.dtype() == DType::f16))
    value = convert(value, parameter.dtype(), at);
  if (value.dtype() != parameter.dtype() || value.shape() != parameter.shape())
    fail(str("is ", shape_text(parameter.dtype(), parameter.shape()), " and is assigned ", value.text(),
             "; convert or reshape the value first"));
  Graph& graph = value.builder()->graph;
  if (has_ended(graph))
    fail(
        str("is assigned ", value.text(), " of a step that was traced before; compute it again in this one"));
  if (graph.find_output(parameter.fqn()) != kNoValue)
    fail("is assigned twice in one step; compute one value of both");
  graph.add_output(OutputKind::state, parameter.fqn(), value.id());
}

void reassign(const Parameter& parameter, Tensor value, Here at) {
  if (value.defined())
    std::erase_if(value.builder()->graph.outputs,
                  [&](const GraphOutput& made) { return made.name == parameter.fqn(); });
  assign(parameter, std::move(value), at);
}

Tensor assigned(const Parameter& parameter, const Tensor& beside) {
  const ValueId made = beside.builder()->graph.find_output(parameter.fqn());
  return made == kNoValue ? parameter(beside) : Tensor(beside.builder(), made);
}

}  // namespace lockstep
