// The shapes and types of a plan's gradient buckets.
#include "compiler/program/build/step_plan.h"

#include "core/base/error.h"

namespace lockstep::compiler {

GatherOptions gather_options(const CompileOptions& options) {
  return {options.gather_bytes ? options.gather_bytes : options.bucket_bytes, options.reshard_after_forward};
}

std::vector<ValueId> update_gates(const Graph& whole) {
  std::vector<ValueId> out;
  for (const Node& node : whole.nodes)
    if (node.op == ops::norm_of_limbs) out.push_back(node.outputs[0]);
  for (const auto& output : whole.outputs)
    if (output.kind == OutputKind::metric && output.name == "loss") out.push_back(output.value);
  return out;
}

std::vector<std::vector<Shape>> bucket_shapes(const StepPlan& plan) {
  std::vector<std::vector<Shape>> out;
  for (const auto& bucket : plan.phases.buckets) {
    out.emplace_back();
    for (int output : bucket) out.back().push_back(plan.body[plan.body.outputs[output].value].shape);
  }
  return out;
}

std::vector<DType> bucket_dtypes(const StepPlan& plan) {
  std::vector<DType> out;
  for (const auto& bucket : plan.phases.buckets) {
    out.push_back(plan.body[plan.body.outputs[bucket.at(0)].value].dtype);
    for (int output : bucket)
      LS_CHECK(plan.body[plan.body.outputs[output].value].dtype == out.back(),
               "gradients of two types in one bucket");
  }
  return out;
}

}  // namespace lockstep::compiler
