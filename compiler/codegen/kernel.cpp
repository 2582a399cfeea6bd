// Kernels of bodies on the CPU, and queries about bodies that their plans answer.
#include "compiler/codegen/kernel.h"

#include "compiler/codegen/cpu/loops.h"
#include "compiler/codegen/loops/kernel_body.h"
#include "compiler/codegen/loops/plan_body.h"
#include "compiler/codegen/statements/own_source.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/ir/print.h"
#include "core/table/register.h"

namespace lockstep::compiler {

namespace {
KernelSource own_kernel(const Graph& body) {
  const std::string& source = op_row(body.nodes[0].op).own->definition.cpp;
  std::vector<std::string> pointers;
  for (size_t i = 0; i < body.nodes[0].inputs.size() + body.nodes[0].outputs.size(); ++i)
    pointers.push_back(str("args[", i, "]"));
  KernelSource out;
  out.name = str("k_", hash_hex(print(body, {.source_lines = false}) + source));
  const codegen::OwnText text = codegen::own_text(body, source, out.name, "static inline", pointers);
  out.text = str(text.definitions, "extern \"C\" void ", out.name, "(void* const* args, int threads) {\n",
                 text.arguments,
                 "#pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)\n"
                 "  for (long item = 0; item < ",
                 text.items, "; ++item) ", text.call, "\n}\n");
  out.flops = static_cast<double>(text.items);
  return out;
}
}  // namespace

KernelSource generate_kernel(const Graph& body) {
  if (codegen::own_node(body)) return own_kernel(body);
  const codegen::KernelBody made = codegen::kernel_body(body, "k_");
  KernelSource out;
  out.name =
      made.reads_parts() ? str("k_", hash_hex(cpu::kernel_text(made.graph, made.plan, ""))) : made.name;
  out.begins = made.begins;
  out.flops = made.flops();
  out.text = cpu::kernel_text(made.graph, made.plan, out.name);
  if (logs::enabled("source")) logs::topic("source", made.described + out.text);
  return out;
}

bool fits_one_kernel(const Graph& body, std::string* reason) {
  auto made = codegen::plan_body(body);
  if (reason) *reason = made.reason;
  return made.plan.has_value();
}

KernelCost kernel_cost(const Graph& body) {
  auto made = codegen::plan_body(body);
  if (!made.plan) return {};
  KernelCost cost{true, made.plan->work, made.plan->dear, made.plan->irregular};
  if (made.plan->row_reductions && made.plan->column_reductions)
    cost.both_ways = {made.plan->rows, made.plan->columns};
  return cost;
}

bool can_alias(const Graph& body, int output, int input) {
  const Value& to = body[body.outputs[output].value];
  const Value& from = body[body.inputs[input].value];
  if (to.dtype != from.dtype || numel(to.shape) != numel(from.shape)) return false;
  auto made = codegen::plan_body(body);
  if (!made.plan) return false;
  const codegen::Plan& plan = *made.plan;
  for (const auto& store : plan.stores) {
    if (store.output != output) continue;
    for (const auto& item : plan.items)
      if (item.kind == codegen::ItemKind::load && item.input == input &&
          (store.level == codegen::Level::column || !(item.index == store.index)))
        return false;
    for (const auto& item : plan.combine_items)
      if (item.kind == codegen::ItemKind::load && item.input == input &&
          (store.level != codegen::Level::column || !(item.index == store.index)))
        return false;
  }
  return true;
}

}  // namespace lockstep::compiler
