// Trace: batch inputs, the user's function, the loss metric.
#include "compiler/trace/trace.h"

#include "core/base/error.h"
#include "core/ops/apply.h"

namespace lockstep::compiler {

Graph trace(const std::vector<BatchField>& batch, const StepFunction& function, std::optional<DType> policy) {
  auto builder = std::make_shared<Builder>();
  builder->precision = policy;
  std::vector<Tensor> inputs;
  for (const auto& field : batch) {
    LS_CHECK(!field.shape.empty(), "batch field ", field.name, " has no dim of sequences");
    inputs.emplace_back(builder,
                        builder->graph.add_input(InputKind::batch, field.name, field.dtype, field.shape));
  }
  Loss loss = function(inputs);
  if (!loss.sum.defined() || !loss.count.defined())
    throw UserError("the step function returned no loss; return what cross_entropy gives: {sum, count}");
  if (!loss.sum.shape().empty() || !loss.count.shape().empty())
    throw UserError(str("the loss has sum ", loss.sum.text(), " and count ", loss.count.text(),
                        "; both must be scalars (rank 0)"));
  Tensor sum = apply1(ops::sum_lanes, {loss.sum});
  Tensor count = sum_counts(loss.count);
  for (const char* name : {"loss", "tokens"})
    if (builder->graph.find_output(name) != kNoValue)
      throw UserError(str("metric \"", name, "\" is the step's own; give yours another name"));
  builder->graph.add_output(OutputKind::metric, "loss", (sum / convert(count, sum.dtype())).id());
  builder->graph.add_output(OutputKind::metric, "tokens", count.id());
  return std::move(builder->graph);
}

}  // namespace lockstep::compiler
