// The table: all rows by name, and what is asked of it: types of a node, verification of a graph.
#include "core/ops/op.h"

#include "core/base/error.h"
#include "core/ir/verify.h"
#include "core/ops/rules.h"

namespace lockstep {

void InferContext::fail(const std::string& what) const {
  throw UserError(str("[", op, "] ", at.text(), ": ", what));
}

const std::vector<const Op*>& all_ops() {
  static const std::vector<const Op*> rows = [] {
    std::vector<const Op*> out;
    for (auto family : {pointwise_ops(), creation_ops(), reduce_ops(), view_ops(), contract_ops(),
                        composite_ops(), update_ops(), lane_ops()})
      for (const Op& row : family) out.push_back(&row);
    return out;
  }();
  return rows;
}

const Op* find_op(OpId op) {
  static const std::vector<const Op*> by_id = [] {
    std::vector<const Op*> out;
    for (const Op* row : all_ops()) {
      const size_t place = row->id.index();
      if (place >= out.size()) out.resize(place + 1);
      LS_CHECK(!out[place], "two rows of the op table are named ", row->id);
      out[place] = row;
    }
    return out;
  }();
  return op.index() < by_id.size() ? by_id[op.index()] : nullptr;
}

std::string unknown_op(OpId op) {
  std::vector<std::string> known;
  for (const Op* row : all_ops()) known.emplace_back(row->id.name());
  std::string near = nearest(op.name(), known);
  return str("no op is named \"", op, "\"", near.empty() ? "" : str("; did you mean \"", near, "\"?"));
}

const Op& op_row(OpId op) {
  if (const Op* row = find_op(op)) return *row;
  throw InternalError(unknown_op(op));
}

std::vector<TypedShape> infer(const Graph& graph, const Node& node) {
  if (node.body) {
    std::vector<TypedShape> out;
    for (const auto& output : node.body->outputs)
      out.push_back({(*node.body)[output.value].dtype, (*node.body)[output.value].shape});
    return out;
  }
  std::vector<TypedShape> in;
  for (ValueId id : node.inputs) in.push_back({graph[id].dtype, graph[id].shape});
  return op_row(node.op).infer({node.op, in, node.attrs, node.at});
}

void verify(const Graph& graph, std::string_view after) {
  verify_structure(graph, after);
  for (const Node& node : graph.nodes) {
    if (node.body) {
      verify(*node.body, after);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Value &given = graph[node.inputs[i]], &taken = (*node.body)[node.body->inputs[i].value];
        LS_CHECK(given.dtype == taken.dtype && given.shape == taken.shape, "after ", after, ": ", node.op,
                 " at ", node.at.text(), " gives its body ", shape_text(given.dtype, given.shape), " for ",
                 shape_text(taken.dtype, taken.shape));
      }
    }
    std::vector<TypedShape> types, held;
    try {
      types = infer(graph, node);
    } catch (const UserError& error) { throw InternalError(str("after ", after, ": ", error.what())); }
    for (ValueId id : node.outputs) held.push_back({graph[id].dtype, graph[id].shape});
    LS_CHECK(types == held, "after ", after, ": ", node.op, " at ", node.at.text(), " makes ",
             rules::types_text(types), ", the graph says ", rules::types_text(held));
  }
}

}  // namespace lockstep
