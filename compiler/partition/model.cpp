// The pass, its preparation, and the check between its halves.
#include "compiler/partition/model.h"

#include <map>

#include "compiler/partition/shard_ways.h"
#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
using Kind = Placement::Kind;

Placement state_placement(const PassContext& context, const std::string& fqn, int mesh_dim) {
  return context.layout_of(fqn).on(mesh_dim);
}
}  // namespace

Graph prepare_model(const Graph& graph, const PassContext& context, int mesh_dim) {
  auto builder = std::make_shared<Builder>();
  builder->graph.mesh = graph.mesh;
  PerValue<Tensor> made(graph.values.size());
  PerValue<Placement> weight(graph.values.size());  // of state, and of its copies in another dtype
  for (const auto& input : graph.inputs) {
    made[input.value] = {builder, builder->graph.add_input(input.kind, input.name, graph[input.value].dtype,
                                                           graph[input.value].shape)};
    if (input.kind == InputKind::state) weight[input.value] = state_placement(context, input.name, mesh_dim);
  }
  for (const Node& node : graph.nodes) {
    AtLine line(node.at);
    std::vector<Tensor> in, out;
    for (ValueId v : node.inputs) in.push_back(made[v]);
    if (node.op == ops::convert) weight[node.outputs[0]] = weight[node.inputs[0]];
    if (node.op == ops::dropout) {
      // Random numbers belong to elements of the whole tensor; a rank uses those of its part.
      out = op_row(ops::dropout).expand({in, node.attrs, builder});
    } else if (node.op == ops::linear && in.size() == 3 && weight[node.inputs[1]] == Shard(1)) {
      // Each rank has a term of the product, but the bias is not a term.
      Tensor y = apply1(ops::linear, {in[0], in[1]});
      out = {y + in[2]};
    } else {
      out = apply_again(node, in, builder);
      if (node.op == ops::cross_entropy) {
        // The count depends only on the data: it is taken of whole targets, once.
        Tensor targets = in[1],
               ignored = full_like(targets, static_cast<double>(node.attrs.integer("ignore_index")));
        std::vector<int64_t> dims;
        for (int d = 0; d < targets.ndim(); ++d) dims.push_back(d);
        out[1] = sum(convert(not_equal(targets, ignored), DType::i64), dims);
      }
    }
    for (size_t i = 0; i < out.size(); ++i) made[node.outputs[i]] = out[i];
  }
  for (const auto& output : graph.outputs)
    builder->graph.add_output(output.kind, output.name, made[output.value].id());
  return prune(builder->graph);
}

void check_model_placements(const Graph& graph, const PassContext& context, int mesh_dim) {
  const int64_t ranks = context.mesh.shape[mesh_dim];
  const std::string& dim = context.mesh.dim_names[mesh_dim];
  PerValue<Placement> is(graph.values.size());
  for (const auto& input : graph.inputs)
    if (input.kind == InputKind::state) is[input.value] = state_placement(context, input.name, mesh_dim);
  auto describe = [&](ValueId v) {
    return str("%", v, " ", shape_text(graph[v].dtype, graph[v].shape), " which is ", text(is[v]), " on ",
               dim);
  };
  for (const Node& node : graph.nodes) {
    std::vector<Placement> in;
    std::set<int> groups;
    for (ValueId v : node.inputs) in.push_back(is[v]), groups.insert(in.back().groups);
    for (ValueId v : node.outputs) groups.insert(graph[v].layout.on(mesh_dim).groups);
    auto fail = [&](const std::string& what) {
      throw UserError(str("[", node.op, "] ", node.at.text(), ": ", what));
    };
    if (node.op == ops::redistribute) {
      if (text(in[0]) != node.attrs.word("from"))
        fail(str("reads ", describe(node.inputs[0]), "; it moves what is ", node.attrs.word("from")));
      is[node.outputs[0]] = parse_placement(node.attrs.word("to"));
      continue;
    }
    if (node.op == ops::global_norm) {
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i].kind == Kind::partial)
          fail(str("reads ", describe(node.inputs[i]), "; a term of a sum has no norm: reduce it first"));
      continue;
    }
    const ShardWay* found = nullptr;
    auto ways = shard_ways(graph, node, ranks, groups);
    for (const auto& way : ways) {
      bool fits = way.in == in;
      for (size_t i = 0; i < node.outputs.size(); ++i)
        fits = fits && way.out[i] == graph[node.outputs[i]].layout.on(mesh_dim);
      if (fits) found = &way;
    }
    if (!found) {
      std::vector<std::string> reads, gives;
      for (ValueId v : node.inputs) reads.push_back(describe(v));
      for (ValueId v : node.outputs) gives.push_back(text(graph[v].layout.on(mesh_dim)));
      fail(str("reads ", join(reads, ", "), "; it cannot make ", join(gives, ", "),
               " of that: a reduction or a gather is missing"));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) is[node.outputs[i]] = found->out[i];
  }
  for (const auto& output : graph.outputs) {
    Placement wanted =
        output.kind == OutputKind::state ? state_placement(context, output.name, mesh_dim) : Replicate();
    NodeId producer = graph[output.value].producer;
    if (!(is[output.value] == wanted))
      throw UserError(str("[output] ", producer.valid() ? graph.node(producer).at.text() : "?", ": ",
                          name(output.kind), " \"", output.name, "\" is ", describe(output.value),
                          "; it must be ", text(wanted)));
  }
}

Graph partition_model(Graph graph, const PassContext& context) {
  for (const char* other : {"cp", "pp"})
    if (context.mesh.size(other) > 1)
      throw UserError(
          str("mesh dim ", other, " has size ", context.mesh.size(other),
              ": this version places models only on tp; use tp, dp_shard or dp_replicate for these ranks"));
  const int mesh_dim = context.mesh.find("tp");
  if (mesh_dim < 0 || context.mesh.shape[mesh_dim] == 1) return graph;
  Graph placed = place_model(prepare_model(graph, context, mesh_dim), context, mesh_dim);
  check_model_placements(placed, context, mesh_dim);
  return localize_model(placed, context, mesh_dim);
}

}  // namespace lockstep::compiler
