// Hashes a text of everything that decides bits.
#include "compiler/runtime/certificate.h"

#include <functional>
#include <map>
#include <set>

#include "compiler/codegen/kernel.h"
#include "compiler/codegen/target.h"
#include "compiler/runtime/executable.h"
#include "compiler/runtime/update.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/ir/print.h"
#include "core/table/register.h"

namespace lockstep::compiler {

namespace {
// Kernels and library algorithms of the body. If it recomputes: those without recomputing, and further
// library algorithms. Repeated calls are equal calls, so there is no further algorithm unless a library
// chooses by something other than shapes and strides. Kernels that fusion cuts differently give the same
// bits.
std::string body_algorithms(const StepPlan& plan, const StepBlocks& blocks) {
  if (!plan.plain_body) return blocks.body.algorithms();
  std::string plain = plan_block({*plan.plain_body}, plan.options).algorithms();
  std::set<std::string> known;
  for (const std::string& line : split(plain, '\n')) known.insert(line);
  for (const KernelSource& kernel : kernels_of(plan.body, plan.options)) known.insert(kernel.name);
  for (const std::string& line : split(blocks.body.algorithms(), '\n'))
    if (known.insert(line).second) plain += line + "\n";
  return plain;
}
}  // namespace

std::string certificate_of(const StepPlan& plan, const StepBlocks& blocks, int data_ranks) {
  std::string text =
      str("lockstep numerics 1\nmicro_batches ", plan.micro_batches, "\nlanes ", plan.lanes, "\ntree ",
          plan.options.invariant ? std::string("binary counter") : str("free on ", data_ranks, " ranks"),
          "\nprecision ", plan.options.precision, "\n");
  std::map<std::string, std::string> own;  // registered ops by name
  std::function<void(const Graph&)> find_own = [&](const Graph& graph) {
    for (const Node& node : graph.nodes) {
      if (node.body) find_own(*node.body);
      if (op_row(node.op).own) own[std::string(node.op.name())] = definition_hash(node.op);
    }
  };
  // Graphs without names: the assignment of outputs to buckets changes no bit.
  auto add = [&](Graph graph) {
    find_own(graph);
    graph.outputs.clear();
    text += print(graph, {.source_lines = false});
  };
  // Recomputing repeats nodes and changes no bit, so the certificate uses the step without it.
  const Graph& body = plan.plain_body ? *plan.plain_body : plan.body;
  // Values that come in float8 have the bits of quantize, so the certificate uses whole weights in bf16.
  const Graph& seed = plan.plain_seed ? *plan.plain_seed : plan.seed;
  for (const Graph* graph : {&plan.count, &seed, &body}) add(*graph);
  // Copies of rows change no bit, and exist as a phase only if a table is whole.
  std::set<size_t> copies;
  for (const TailStep& step : plan.phases.tail)
    if (step.takes) copies.insert(static_cast<size_t>(step.fragment));
  for (size_t f = 0; f < plan.fragments.size(); ++f)
    if (!copies.count(f)) add(plan.fragments[f]);
  for (const Node& node : plan.phases.whole.nodes)
    if (op_row(node.op).kind == OpKind::update) {
      text += node.op.name();
      for (const auto& [key, value] : node.attrs.items())
        if (const double* number = std::get_if<double>(&value))
          text += str(" ", key, "=", number_text(*number));
      if (node.body) text += " " + print(*node.body, {.source_lines = false});
      text += "\n";
    }
  if (plan.options.backend == Backend::reference) {
    text += "reference\n";
  } else {
    text += target_of(plan.options).library_version() + "\n" + blocks.count.algorithms() +
            (plan.plain_seed ? plan_block({seed}, plan.options) : blocks.seed).algorithms() +
            body_algorithms(plan, blocks);
    for (size_t f = 0; f < blocks.fragments.size(); ++f)
      if (!copies.count(f)) text += blocks.fragments[f].algorithms();
    for (const auto& kernel : update_kernels(plan.phases, plan.options)) text += kernel.name + "\n";
  }
  for (const auto& [name, hash] : own) text += str("own ", name, " ", hash, "\n");
  return hash_hex(text);
}

}  // namespace lockstep::compiler
