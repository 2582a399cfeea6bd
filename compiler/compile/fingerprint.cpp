// Describes a step for the comparison of ranks.
#include "compiler/compile/fingerprint.h"

#include <algorithm>
#include <variant>

#include "compiler/codegen/target.h"
#include "core/base/text.h"
#include "core/ir/print.h"
#include "core/table/register.h"

namespace lockstep::compiler {

namespace {
using Lines = std::vector<std::pair<std::string, std::string>>;

std::string attr_words(const Attrs& attrs) {
  std::string out;
  for (const auto& [key, value] : attrs.items()) {
    if (key == "types") continue;  // the tensors show it
    out += str(" ", key, " ");
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, DType>)
            out += name(v);
          else if constexpr (std::is_same_v<T, bool>)
            out += v ? "true" : "false";
          else if constexpr (std::is_same_v<T, double>)
            out += number_text(v);
          else
            out += str(v);
        },
        value);
  }
  return out;
}

std::string_view name_of(Backend backend) {
  return backend == Backend::native ? "native" : backend == Backend::eager ? "eager" : "reference";
}

FingerprintPart batch_part(const StepPlan& plan) {
  Lines lines{{"micro-batches", str(plan.micro_batches)}, {"lanes", str(plan.lanes)}};
  for (const auto& field : plan.fields)
    lines.push_back({"field " + field.name, shape_text(field.dtype, field.shape)});
  return {"batch", std::move(lines), "give every rank the same batch sizes and fields", true};
}

FingerprintPart options_part(const CompileOptions& options) {
  return {"set of compile options",
          {{"backend", std::string(name_of(options.backend))},
           {"precision", options.precision},
           {"invariant", options.invariant ? "true" : "false"},
           {"fusion", options.fusion ? "true" : "false"},
           {"bucket_bytes", str(options.bucket_bytes)},
           {"gather", options.gather == GatherWhen::step     ? "step"
                      : options.gather == GatherWhen::layers ? "layers"
                                                             : "micro_batch"},
           {"gather_bytes", str(options.gather_bytes)},
           {"reshard_after_forward", options.reshard_after_forward ? "true" : "false"},
           {"capture", options.capture ? "true" : "false"},
           {"skip_passes", join(options.skip_passes, ", ")},
           {"extra_passes", join(options.extra_passes, ", ")}},
          "give every rank the same options",
          true};
}

FingerprintPart state_part(const State& state) {
  Lines lines{{"seed", str(state.seed())}, {"number of tensors", str(state.specs().size())}};
  for (const Spec& spec : state.specs())
    lines.push_back({spec.fqn, str(shape_text(spec.dtype, spec.shape), " ",
                                   text(state.layout(spec.fqn), state.mesh().words),
                                   spec.trainable || spec.role != Role::parameter ? "" : " frozen",
                                   spec.compute == spec.dtype ? "" : str(" read as ", name(spec.compute)))});
  return {"layout of the state", std::move(lines),
          "every rank must record the same tensors, with the same seed and placements", true};
}

FingerprintPart program_part(const Graph& whole) {
  Lines lines;
  int number = 0;
  for (const auto& line : split(print(whole, {.source_lines = false}), '\n'))
    lines.push_back({str("line ", ++number), trim(line)});
  return {"traced program", std::move(lines), "the step function must not depend on the rank", true};
}
}  // namespace

FingerprintPart collectives_part(const Graph& whole) {
  Lines lines;
  int number = 0;
  for (const Node& node : whole.nodes) {
    if (op_row(node.op).kind != OpKind::collective || node.op == ops::wait) continue;
    const std::string key = str("collective ", ++number);
    lines.push_back({key, str(node.op, attr_words(node.attrs), " of ", node.inputs.size(),
                              node.inputs.size() == 1 ? " tensor" : " tensors",
                              node.at.file.empty() && node.at.scope.empty() ? "" : " at " + node.at.text())});
    int64_t bytes = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = whole[node.inputs[i]];
      bytes += bytes_of(value);
      lines.push_back({str(key, " (", node.op, ") tensor ", i),
                       str(shape_text(value.dtype, value.shape), " ", text(value.layout, whole.mesh))});
    }
    lines.push_back({str(key, " bytes"), str(bytes)});
  }
  lines.push_back({"number of collectives", str(number)});
  return {"list of collectives", std::move(lines),
          "every rank must trace the same step, with the same model, batch and mesh", true};
}

std::vector<FingerprintPart> plan_parts(const StepPlan& plan, const State& state) {
  std::vector<FingerprintPart> out{batch_part(plan), options_part(plan.options), state_part(state)};
  out.push_back({"set of registered ops", registered_ops(),
                 "every rank must register the same ops from the same code", true});
  out.push_back(collectives_part(plan.phases.whole));
  out.push_back(program_part(plan.phases.whole));
  return out;
}

std::vector<FingerprintPart> artifact_parts(const Step& step) {
  const StepPlan& plan = step.plan();
  std::vector<FingerprintPart> out;
  const std::string way_out = "another processor or library; use ranks of one kind";
  if (plan.options.backend != Backend::reference) {
    out.push_back({"set of libraries", {{"", target_of(plan.options).library_version()}}, way_out, true});
    out.push_back({"artifact",
                   {{"machine code", plan.kernels->hash()}},
                   "it was not received as it was sent; start again",
                   false});
  }
  out.push_back({"numerics certificate", {{"", step.certificate()}}, way_out, true});
  return out;
}

std::string compile_place(const StepPlan& plan) {
  const bool writes = std::any_of(plan.phases.whole.nodes.begin(), plan.phases.whole.nodes.end(),
                                  [](const Node& node) { return op_row(node.op).kind == OpKind::update; });
  return writes ? "before the training step is compiled" : "before the evaluation step is compiled";
}

}  // namespace lockstep::compiler
