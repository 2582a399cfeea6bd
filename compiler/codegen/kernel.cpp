// Kernels of bodies: normal form, name, plan, text.
#include "compiler/codegen/kernel.h"

#include "compiler/codegen/cpu/loops.h"
#include "compiler/codegen/loops/evaluate.h"
#include "compiler/codegen/loops/plan.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/ir/print.h"
#include "core/ir/walk.h"

namespace lockstep {

Graph normalised_body(const Graph& body) {
  Graph out = prune(body);
  out.mesh = Mesh{{}, {}};
  for (auto& value : out.values) value.layout = {};
  for (auto& input : out.inputs)
    input.name.clear(), input.kind = out[input.value].shape.empty() && input.kind == InputKind::scalar
                                         ? InputKind::scalar
                                         : InputKind::value;
  for (auto& output : out.outputs) output.name.clear(), output.kind = OutputKind::value;
  return out;
}

KernelSource generate_kernel(const Graph& body) {
  Graph own = normalised_body(body);
  for (auto& input : own.inputs) input.kind = InputKind::value;
  std::string text = print(own, {.source_lines = false});
  auto made = cpu::plan_body(own);
  LS_CHECK(made.plan, "no kernel for this body (", made.reason, "):\n", text);
  KernelSource out;
  out.name = "k_" + hash_hex(text);
  out.text = cpu::kernel_text(own, *made.plan, out.name);
  if (logs::enabled("source")) logs::topic("source", text + out.text);
  return out;
}

bool fits_one_kernel(const Graph& body, std::string* reason) {
  auto made = cpu::plan_body(body);
  if (reason) *reason = made.reason;
  return made.plan.has_value();
}

KernelCost kernel_cost(const Graph& body) {
  auto made = cpu::plan_body(body);
  if (!made.plan) return {};
  return {true, made.plan->work, made.plan->dear, made.plan->irregular};
}

int kernel_cost_of(std::string_view scalar) { return cpu::cost_of(scalar); }

bool can_alias(const Graph& body, int output, int input) {
  const Value& to = body[body.outputs[output].value];
  const Value& from = body[body.inputs[input].value];
  if (to.dtype != from.dtype || numel(to.shape) != numel(from.shape)) return false;
  auto made = cpu::plan_body(body);
  if (!made.plan) return false;
  const cpu::Plan& plan = *made.plan;
  for (const auto& store : plan.stores) {
    if (store.output != output) continue;
    for (const auto& item : plan.items)
      if (item.kind == cpu::ItemKind::load && item.input == input &&
          (store.level == cpu::Level::column || !(item.index == store.index)))
        return false;
    for (const auto& item : plan.combine_items)
      if (item.kind == cpu::ItemKind::load && item.input == input &&
          (store.level != cpu::Level::column || !(item.index == store.index)))
        return false;
  }
  return true;
}

}  // namespace lockstep
