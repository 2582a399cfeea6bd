// Finds gradients of tables that can be joined, and writes them as one.
#include "compiler/lower/join_row_sums.h"

#include <algorithm>
#include <limits>
#include <map>

#include "compiler/codegen/target.h"
#include "core/ir/walk.h"

namespace lockstep::compiler {

namespace {
using Members = std::vector<NodeId>;

int64_t rows_of(const Graph& graph, const Node& node) { return graph[node.outputs[0]].shape[0]; }

// Gradients of tables [rows, width], grouped by width and dtype. A group's rows and ids must fit into a key.
std::vector<Members> groups_of(const Graph& graph) {
  std::map<std::pair<int64_t, DType>, Members> found;
  for (NodeId n : graph.node_ids()) {
    const Node& node = graph.node(n);
    if (node.op != ops::embedding_grad || graph[node.inputs[1]].dtype != DType::i32) continue;
    const Value& out = graph[node.outputs[0]];
    if (out.shape.size() == 2 && numel(graph[node.inputs[1]].shape) > 0)
      found[{out.shape[1], out.dtype}].push_back(n);
  }
  std::vector<Members> out;
  for (auto& [kind, members] : found) {
    int64_t rows = 0, ids = 0;
    std::vector<ValueId> made;
    for (NodeId n : members) {
      const Node& node = graph.node(n);
      rows += rows_of(graph, node), ids += numel(graph[node.inputs[1]].shape);
      made.push_back(node.outputs[0]);
    }
    const PerValue<bool> behind = depends_on(graph, made);
    const bool apart = std::none_of(members.begin(), members.end(), [&](NodeId n) {
      const auto& in = graph.node(n).inputs;
      return std::any_of(in.begin(), in.end(), [&](ValueId v) { return behind[v]; });
    });
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
    if (members.size() >= kMostApart && apart && rows < kMost && ids < kMost)
      out.push_back(std::move(members));
  }
  return out;
}

class Joined {
 public:
  Joined(const Graph& old, Rewriter& rewriter) : old_(old), rewriter_(rewriter), made_(rewriter.graph()) {}

  void write(const Members& members) {
    int64_t rows = 0, count = 0;
    std::vector<ValueId> ids, updates;
    const Value& first = old_[old_.node(members[0]).outputs[0]];
    const int64_t width = first.shape[1];
    for (NodeId n : members) {
      const Node& node = old_.node(n);
      at_ = &node.at;
      const int64_t own = numel(old_[node.inputs[1]].shape);
      updates.push_back(reshaped(rewriter_.at(node.inputs[0]), {own, width}));
      ids.push_back(moved(reshaped(rewriter_.at(node.inputs[1]), {own}), rows_of(old_, node), rows));
      rows += rows_of(old_, node), count += own;
    }
    const Attrs first_dim{{"dim", Attr(int64_t{0})}};
    const ValueId all_updates = append(ops::concat, updates, first_dim, first.dtype, {count, width}),
                  all_ids = append(ops::concat, ids, first_dim, DType::i32, {count}),
                  sums = append(ops::embedding_grad, {all_updates, all_ids}, {{"rows", Attr(rows)}},
                                first.dtype, {rows, width});
    int64_t from = 0;
    for (NodeId n : members) {
      const Node& node = old_.node(n);
      const int64_t own = rows_of(old_, node);
      const ValueId part = append(ops::slice, {sums},
                                  {{"start", Attr(std::vector<int64_t>{from, 0})},
                                   {"limit", Attr(std::vector<int64_t>{from + own, width})},
                                   {"step", Attr(std::vector<int64_t>{1, 1})}},
                                  first.dtype, {own, width});
      made_[part].layout = old_[node.outputs[0]].layout;
      rewriter_.map(node.outputs[0], part);
      from += own;
    }
  }

 private:
  ValueId append(OpId op, const std::vector<ValueId>& inputs, Attrs attrs, DType dtype, const Shape& shape) {
    return made_.append(op, inputs, std::move(attrs), {{dtype, shape}}, *at_)[0];
  }
  ValueId reshaped(ValueId v, const Shape& shape) {
    if (made_[v].shape == shape) return v;
    return append(ops::reshape, {v}, {{"shape", Attr(shape)}}, made_[v].dtype, shape);
  }
  ValueId number(int64_t value, const Shape& shape) {
    return append(
        ops::full, {},
        {{"shape", Attr(shape)}, {"value", Attr(static_cast<double>(value))}, {"dtype", Attr(DType::i32)}},
        DType::i32, shape);
  }
  // Ids of a table of `rows` rows that begins at `from`; -1, which is in no table, for ids outside.
  ValueId moved(ValueId ids, int64_t rows, int64_t from) {
    const Shape shape = made_[ids].shape;
    const ValueId none = number(-1, shape),
                  below = append(ops::lt, {ids, number(rows, shape)}, {}, DType::boolean, shape),
                  above = append(ops::lt, {none, ids}, {}, DType::boolean, shape),
                  there = append(ops::and_, {below, above}, {}, DType::boolean, shape),
                  to = from ? append(ops::add, {ids, number(from, shape)}, {}, DType::i32, shape) : ids;
    return append(ops::where, {there, to, none}, {}, DType::i32, shape);
  }

  const Graph& old_;
  Rewriter& rewriter_;
  Graph& made_;
  const SourceLine* at_ = nullptr;
};
}  // namespace

Graph with_joined_row_sums(const Graph& graph) {
  Graph out = graph;
  for (bool more = true; more;) {  // one group at a time, because later groups depend on it
    const auto groups = groups_of(out);
    more = !groups.empty();
    if (!more) break;
    const Members& members = groups[0];
    std::vector<ValueId> made;
    for (NodeId n : members) made.push_back(out.node(n).outputs[0]);
    const PerValue<bool> behind = depends_on(out, made);
    const auto is_behind = [&](const Node& node) {
      return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return behind[v]; });
    };
    Rewriter rewriter(out);
    PerNode<bool> joined(out.nodes.size());
    for (NodeId n : members) joined[n] = true;
    for (NodeId n : out.node_ids())
      if (!joined[n] && !is_behind(out.node(n))) rewriter.copy(out.node(n));
    Joined(out, rewriter).write(members);
    for (NodeId n : out.node_ids())
      if (!joined[n] && is_behind(out.node(n))) rewriter.copy(out.node(n));
    Graph next = rewriter.finish();
    out = std::move(next);
  }
  return out;
}

Graph join_row_sums(Graph graph, const PassContext& context) {
  return target_of(context.options).device().addressable() ? graph : with_joined_row_sums(graph);
}

}  // namespace lockstep::compiler
