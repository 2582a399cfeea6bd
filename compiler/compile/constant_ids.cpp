// Checks constant ids: the reference evaluates them in a separate graph.
#include "compiler/compile/constant_ids.h"

#include <algorithm>

#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
constexpr int64_t kMostElements = int64_t{1} << 20;

// The graph of only the nodes that `ids` depends on.
Graph made_alone(const Graph& traced, ValueId ids) {
  Graph out = traced;
  out.inputs.clear();
  out.outputs.clear();
  out.add_output(OutputKind::value, "ids", ids);
  return prune(out);
}
bool is_small(const Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    const Op& row = op_row(node.op);
    return !row.own &&
           (row.kind == OpKind::pointwise || row.kind == OpKind::creation || row.kind == OpKind::view) &&
           std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId v) { return numel(graph[v].shape) <= kMostElements; });
  });
}
}  // namespace

void check_constant_ids(const Graph& traced, const std::vector<IdRead>& reads) {
  std::vector<ValueId> inputs;
  for (const auto& input : traced.inputs) inputs.push_back(input.value);
  const PerValue<bool> varies = depends_on(traced, inputs);
  for (const IdRead& read : reads) {
    if (varies[read.ids] || numel(traced[read.ids].shape) > kMostElements) continue;
    const Graph alone = made_alone(traced, read.ids);
    if (!is_small(alone)) continue;
    const HostTensor ids = evaluate(alone, {})[0];
    for (int64_t i = 0; i < ids.size(); ++i) {
      const int64_t id = ids.int_at(i);
      if ((id >= 0 && id < read.count) || (read.ignores && id == read.ignored)) continue;
      throw UserError(str("[", read.op, "] ", read.at.text(), ": the constant ids hold ", id, " at element ",
                          i, "; each is ", read.of, ", 0 to ", read.count - 1,
                          read.ignores ? str(", or ", read.ignored, ", which does not count") : "",
                          ": mend the constant, or what it is read from"));
    }
  }
}

}  // namespace lockstep::compiler
