// Executables of a step and its certificate.
#include "compiler/runtime/certificate.h"

#include <set>

#include "compiler/codegen/kernel.h"
#include "compiler/codegen/target.h"
#include "compiler/runtime/update.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/ir/print.h"
#include "core/ops/op.h"

namespace lockstep {

int64_t StepExecutables::arena_bytes() const {
  int64_t bytes = count->arena_bytes() + seed->arena_bytes() + body->arena_bytes();
  for (const auto& fragment : fragments) bytes += fragment->arena_bytes();
  return bytes;
}

StepExecutables make_executables(const StepPlan& plan, const GroupOf& group_of) {
  const LanePlan lanes{plan.micro_batches, plan.lanes, static_cast<int>(plan.phases.whole.mesh.data_size()),
                       0, plan.order};
  auto make = [&](const Graph& graph, const std::vector<std::vector<int>>& groups,
                  const std::vector<int>& streamed = {}) {
    const int64_t gather_bytes =
        plan.options.gather_bytes ? plan.options.gather_bytes : plan.options.bucket_bytes;
    ExecutableSource source{
        graph,
        groups,
        streamed,
        {gather_bytes, plan.options.reshard_after_forward},
        streamed.empty() || plan.options.gather != GatherWhen::layers ? 1 : lanes.slots(0),
        group_of};
    return plan.options.backend == Backend::reference ? make_reference(source)
                                                      : make_native(source, plan.kernels, plan.options);
  };
  std::vector<int> streamed;
  for (const auto& weight : plan.phases.streamed) streamed.push_back(weight.input);
  StepExecutables out;
  out.count = make(plan.count, {});
  out.seed = make(plan.seed, {});
  out.body = make(plan.body, plan.phases.buckets, streamed);
  for (const Graph& fragment : plan.fragments) out.fragments.push_back(make(fragment, {}));
  return out;
}

namespace {
// Kernels and library algorithms of the body. Where it recomputes: those without recomputing, and the
// algorithms of libraries that are not among them. Repeated calls are equal calls, so there is none, unless a
// library chooses by something else than shapes and strides; kernels that fusion cuts differently give the
// same bits.
std::string body_algorithms(const StepPlan& plan, const std::string& body) {
  if (!plan.plain_body) return body;
  std::string plain = make_native({*plan.plain_body, {}}, nullptr, plan.options)->algorithms();
  std::set<std::string> known;
  for (const std::string& line : split(plain, '\n')) known.insert(line);
  for (const KernelSource& kernel : kernels_of(plan.body, plan.options)) known.insert(kernel.name);
  for (const std::string& line : split(body, '\n'))
    if (known.insert(line).second) plain += line + "\n";
  return plain;
}

// Kernels and library algorithms of the phases, in order.
struct Algorithms {
  std::string count, seed, body, fragments;
};
std::string certificate_of(const StepPlan& plan, const Algorithms& algorithms, int data_ranks) {
  std::string text =
      str("lockstep numerics 1\nmicro_batches ", plan.micro_batches, "\nlanes ", plan.lanes, "\ntree ",
          plan.options.invariant ? std::string("binary counter") : str("free on ", data_ranks, " ranks"),
          "\nprecision ", plan.options.precision, "\n");
  // What is computed from what; which output goes into which bucket changes no bit.
  auto add = [&](Graph graph) {
    graph.outputs.clear();
    text += print(graph, {.source_lines = false});
  };
  // Recomputing repeats nodes and changes no bit: the certificate is that of the step without it.
  const Graph& body = plan.plain_body ? *plan.plain_body : plan.body;
  for (const Graph* graph : {&plan.count, &plan.seed, &body}) add(*graph);
  for (const Graph& graph : plan.fragments) add(graph);
  for (const Node& node : plan.phases.whole.nodes)
    if (op_row(node.op).kind == OpKind::update) {
      text += node.op.name();
      for (const auto& [key, value] : node.attrs.items())
        if (const double* number = std::get_if<double>(&value))
          text += str(" ", key, "=", number_text(*number));
      text += "\n";
    }
  if (plan.options.backend == Backend::reference) {
    text += "reference\n";
  } else {
    text += target_of(plan.options).library_version() + "\n" + algorithms.count + algorithms.seed +
            body_algorithms(plan, algorithms.body) + algorithms.fragments;
    for (const auto& kernel : update_kernels(plan.phases, plan.options)) text += kernel.name + "\n";
  }
  return hash_hex(text);
}
}  // namespace

std::string certificate_of(const StepPlan& plan, const StepExecutables& executables, int data_ranks) {
  Algorithms all{
      executables.count->algorithms(), executables.seed->algorithms(), executables.body->algorithms(), {}};
  for (const auto& fragment : executables.fragments) all.fragments += fragment->algorithms();
  return certificate_of(plan, all, data_ranks);
}
std::string certificate_of(const StepPlan& plan, const StepBlocks& blocks, int data_ranks) {
  Algorithms all{blocks.count.algorithms(), blocks.seed.algorithms(), blocks.body.algorithms(), {}};
  for (const ProgramBlock& fragment : blocks.fragments) all.fragments += fragment.algorithms();
  return certificate_of(plan, all, data_ranks);
}

}  // namespace lockstep
