// Trace: batch inputs, the user's function, the loss metric.
#include "compiler/trace/trace.h"

#include <set>

#include "core/base/error.h"
#include "core/ops/apply.h"
#include "core/ops/count_metric.h"

namespace lockstep::compiler {

namespace {
// Rows of a sparse table may be taken and replaced; replaced rows are read in the next step.
void check_sparse_tables(const Builder& builder) {
  const Graph& graph = builder.graph;
  std::set<ValueId> replaced;
  auto refuse = [&](const Node& node, ValueId table, const char* what) {
    std::string name;
    for (const auto& input : graph.inputs)
      if (input.value == table) name = input.name;
    throw UserError(
        str("[", node.op, "] ", node.at.text(), ": ", what, " the sparse table \"", name,
            "\", whose rows a step takes only by embedding(), embedding_bag() or take(); make the table "
            "dense, or leave this reader out"));
  };
  for (const Node& node : graph.nodes) {
    const bool by_rows = node.op == ops::embedding || node.op == ops::take || node.op == ops::put_rows;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (replaced.count(v)) refuse(node, graph.producer(v).inputs[0], "reads the new values of");
      if (builder.sparse.count(v) && !(by_rows && i == 0)) refuse(node, v, "reads the whole of");
    }
    if (node.op == ops::put_rows) replaced.insert(node.outputs[0]);
  }
}
}  // namespace

Graph trace(const std::vector<BatchField>& batch, const StepFunction& function, std::optional<DType> policy,
            int64_t micro_batches, Told* told) {
  auto builder = std::make_shared<Builder>();
  builder->precision = policy;
  builder->micro_batches = micro_batches;
  std::vector<Tensor> inputs;
  for (const auto& field : batch) {
    LS_CHECK(!field.shape.empty(), "batch field ", field.name, " has no dim of sequences");
    inputs.emplace_back(builder,
                        builder->graph.add_input(InputKind::batch, field.name, field.dtype, field.shape));
  }
  Loss loss = function(inputs);
  if (loss.terms.empty() && (!loss.sum.defined() || !loss.count.defined()))
    throw UserError("the step function returned no loss; return what cross_entropy gives: {sum, count}");
  Tensor value;
  std::vector<Tensor> counts;
  for (const Loss& term : terms_of("loss", loss)) {
    const ValueId written = term.sum.id();
    if (told)
      told->terms.push_back(builder->graph[written].producer.valid() ? builder->graph.producer(written).at
                                                                     : SourceLine());
    const Tensor sum = apply1(ops::sum_lanes, {term.sum}), count = sum_counts(term.count);
    const Tensor mean = sum / convert(count, sum.dtype());
    value = value.defined() ? value + mean : mean;
    counts.push_back(count);
  }
  builder->graph.add_output(OutputKind::metric, "loss", value.id());
  for (size_t i = 0; i < counts.size(); ++i)
    builder->graph.add_output(OutputKind::metric, count_metric(i), counts[i].id());
  check_sparse_tables(*builder);
  if (told) told->id_reads = builder->id_reads;
  // A copy, because tensors that the function kept still refer to the graph for their shapes.
  return builder->graph;
}

}  // namespace lockstep::compiler
