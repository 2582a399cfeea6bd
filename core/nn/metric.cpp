// Metrics as outputs of the graph.
#include "core/nn/metric.h"

#include "core/base/error.h"
#include "core/nn/scope.h"
#include "core/ops/count_metric.h"
#include "core/ops/functions.h"

namespace lockstep {

void metric(const std::string& name, Tensor value, Here at) {
  auto fail = [&](const std::string& what) {
    throw UserError(str("[metric] ", line_of(at).text(), ": \"", name, "\" ", what));
  };
  if (!value.defined()) fail("is an empty Tensor");
  if (value.ndim() != 0)
    fail(str("is ", value.text(), "; a metric is a scalar (rank 0): reduce it with sum or mean"));
  Graph& graph = value.builder()->graph;
  if (has_ended(graph))
    fail(str("is ", value.text(), " of a step that was traced before; compute it anew in this one"));
  if (graph.find_output(name) != kNoValue)
    fail("is reported twice in one step; give one of the two another name");
  graph.add_output(OutputKind::metric, name, value.id());
}

void metric(const std::string& name, const Loss& mean, Here at) {
  if (mean.terms.empty() && (!mean.sum.defined() || !mean.count.defined())) return metric(name, Tensor(), at);
  Tensor all;
  for (const Loss& term : terms_of("metric", mean, at)) {
    Tensor sum = sum_lanes(convert(term.sum, DType::f32, at), at),
           count = convert(sum_counts(term.count, at), DType::f32, at);
    const Tensor part = TensorAt(sum, at) / count;
    all = all.defined() ? TensorAt(all, at) + part : part;
  }
  metric(name, all, at);
}

}  // namespace lockstep
