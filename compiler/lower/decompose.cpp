// Expands composite nodes through the op table until only primitives and claimed ops are left.
#include "compiler/lower/decompose.h"

#include "compiler/codegen/target.h"
#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/apply.h"
#include "core/table/register.h"

namespace lockstep::compiler {

namespace {
// Composites that stay: global_norm (partition makes its exact sums); updates (expanded inside the
// multi-tensor kernel); composites that the target claims. Expanded although claimed: attention with dropout,
// because no library draws its numbers; attention and convolution in f64, which are for tests of gradients.
bool stays(const Op& row, const Node& node, const std::vector<Tensor>& inputs, const PassContext& context) {
  if (row.library == Library::attention && node.attrs.has("dropout")) return false;
  if ((row.library == Library::attention || row.library == Library::convolution) &&
      inputs[0].dtype() == DType::f64)
    return false;
  return row.kind == OpKind::update || row.id == ops::global_norm ||
         target_of(context.options).claims(row.id);
}
}  // namespace

namespace {
// Refuses a registered op that has code only for another kind of device.
void refuse_without_code(const Node& node, const Op& row, const PassContext& context) {
  const Target& target = target_of(context.options);
  if (!row.own || row.kind != OpKind::composite || row.expand ||
      context.options.backend == Backend::reference || target.claims(row.id))
    return;
  const bool cuda = !row.own->definition.cuda.empty();
  throw UserError(str("[", node.op, "] ", node.at.text(), ": it has code only for ",
                      cuda ? "CUDA" : "the CPU", ", and the step runs on ", target.device().describe(),
                      "; register it with ", cuda ? "cpp, host" : "cuda", " or expand, too"));
}
}  // namespace

Graph decompose(Graph graph, const PassContext& context) {
  auto builder = std::make_shared<Builder>();
  builder->graph.mesh = graph.mesh;
  PerValue<ValueId> map(graph.values.size(), kNoValue);
  for (const auto& input : graph.inputs)
    map[input.value] =
        builder->graph.add_input(input.kind, input.name, graph[input.value].dtype, graph[input.value].shape);
  bool again = false;
  for (const Node& node : graph.nodes) {
    const Op& row = op_row(node.op);
    refuse_without_code(node, row, context);
    std::vector<Tensor> inputs;
    for (ValueId v : node.inputs) inputs.emplace_back(builder, map[v]);
    std::vector<Tensor> made;
    if (row.expand && !stays(row, node, inputs, context)) {
      AtLine line(node.at);
      made = row.expand({inputs, node.attrs, builder});
      LS_CHECK(made.size() == node.outputs.size(), node.op, ": the expansion gives ", made.size(),
               " values for ", node.outputs.size(), " outputs");
      again = true;
    } else {
      made = apply_again(node, inputs, builder);
    }
    for (size_t i = 0; i < made.size(); ++i) {
      const Value& old = graph[node.outputs[i]];
      LS_CHECK(made[i].dtype() == old.dtype && made[i].shape() == old.shape, node.op, " at ", node.at.text(),
               ": its expansion gives ", made[i].text(), " for ", shape_text(old.dtype, old.shape));
      map[node.outputs[i]] = made[i].id();
    }
  }
  for (const auto& output : graph.outputs)
    builder->graph.add_output(output.kind, output.name, map[output.value]);
  return again ? decompose(std::move(builder->graph), context) : prune(builder->graph);
}

}  // namespace lockstep::compiler
