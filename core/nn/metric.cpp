// Metrics as outputs of the graph.
#include "core/nn/metric.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/nn/scope.h"
#include "core/ops/count_metric.h"
#include "core/reading/one_line.h"

namespace lockstep {

namespace {
// Whether metrics.jsonl, or the result of a called step, uses the name for a field of its own.
bool is_the_steps_own(std::string_view name) {
  static constexpr std::array<std::string_view, 18> kNames{
      "step",         "loss",           "tokens",      "lr",          "step_ms",       "tokens_per_s",
      "slowest_rank", "busy_ms_median", "busy_ms_min", "busy_ms_max", "samples_per_s", "predicted_step_ms",
      "passed_over",  "state_hash",     "certificate", "applied",     "stop",          "measured_step_ms"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || is_later_count(name) ||
         (name.starts_with("exposed_") && name.ends_with("_ms")) || name.starts_with("weight_norm.") ||
         (name.starts_with("val_") && !name.ends_with(".grad_norm"));  // which is of an optimizer at val_...
}
}  // namespace

void metric(const std::string& name, Tensor value, Here at) {
  auto fail = [&](const std::string& what) {
    throw UserError(str("[metric] ", line_of(at).text(), ": \"", one_line(name), "\" ", what));
  };
  if (name.empty() || one_line(name) != name) fail("is no name of a metric; give it a word");
  if (is_the_steps_own(name)) fail("is the step's own; give yours another name");
  if (!value.defined()) fail("is an empty Tensor");
  if (value.ndim() != 0)
    fail(str("is ", value.text(), "; a metric is a scalar (rank 0): reduce it with sum or mean"));
  Graph& graph = value.builder()->graph;
  if (has_ended(graph))
    fail(str("is ", value.text(), " of a step that was traced before; compute it again in this one"));
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
