// Laws one, two and five.
#include "compiler/laws/laws.h"

#include "compiler/laws/tolerance.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"

namespace lockstep::compiler::laws {

Verdict inference_equals_run(const Case& made) {
  verify(made.graph, "the sample");
  const std::vector<HostTensor> out = evaluate_node(made.graph, made.node(), made.inputs);
  const std::vector<TypedShape> inferred = infer(made.graph, made.node());
  if (out.size() != inferred.size())
    return str("a run gives ", out.size(), " outputs, inferred ", inferred.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].dtype != inferred[i].dtype || out[i].shape != inferred[i].shape)
      return str("output ", i, " runs to ", shape_text(out[i].dtype, out[i].shape), ", inferred ",
                 shape_text(inferred[i].dtype, inferred[i].shape));
  return "";
}

Verdict expansion_equals_reference(const Case& made) {
  if (!made.op->expand) return {};
  auto builder = std::make_shared<Builder>();
  std::vector<Tensor> in = add_inputs(builder, made.sample.in);
  std::vector<Tensor> out = made.op->expand({in, made.sample.attrs, builder});
  for (const Tensor& tensor : out) builder->graph.add_output(OutputKind::value, "", tensor.id());
  verify(builder->graph, "expand");
  for (const Node& node : builder->graph.nodes)
    if (node.op == made.op->id) return "it expands into itself";
  const std::vector<HostTensor> right = evaluate_node(made.graph, made.node(), made.inputs),
                                given = evaluate(builder->graph, made.inputs);
  if (given.size() != right.size())
    return str("the expansion gives ", given.size(), " outputs for ", right.size());
  for (size_t i = 0; i < right.size(); ++i)
    if (std::string what = difference(given[i], right[i]); !what.empty())
      return str("output ", i, ": ", what);
  return "";
}

std::string equals_reference(const Case& made, const std::vector<HostTensor>& given) {
  const std::vector<HostTensor> right = evaluate(made.graph, made.inputs);
  if (given.size() != right.size()) return str("it gives ", given.size(), " outputs for ", right.size());
  for (size_t i = 0; i < right.size(); ++i)
    if (std::string what = difference(given[i], right[i]); !what.empty())
      return str("output ", i, ": ", what);
  return "";
}

}  // namespace lockstep::compiler::laws
