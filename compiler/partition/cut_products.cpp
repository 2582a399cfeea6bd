// Cuts values into pieces, made by pieces of nodes, and puts them together for readers of the whole.
#include "compiler/partition/cut_products.h"

#include <algorithm>
#include <map>

#include "compiler/partition/piece_count.h"
#include "compiler/partition/shard_ways.h"
#include "compiler/partition/token_split.h"
#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/localize.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
using List = std::vector<int64_t>;

class Cutter {
 public:
  Cutter(const Graph& graph, const PassContext& context, int mesh_dim)
      : graph_(graph),
        context_(context),
        ranks_(context.mesh.shape[mesh_dim]),
        shards_(context.options.sequence_parallel ? ranks_ : 1),
        users_(users_of(graph)),
        weight_(graph.values.size()),
        forward_(graph.nodes.size()),
        cut_(graph.values.size()),
        pieces_(graph.values.size()),
        rewriter_(graph) {
    tokens_ = tokens_of(graph);
    for (const auto& input : graph.inputs)
      if (input.kind == InputKind::state) weight_[input.value] = context.layout_of(input.name).on(mesh_dim);
    std::vector<ValueId> summed;
    for (const Node& node : graph.nodes)
      if (op_row(node.op).kind == OpKind::lanes)
        summed.insert(summed.end(), node.outputs.begin(), node.outputs.end());
    const auto after_sum = depends_on(graph, summed);
    for (NodeId n : graph.node_ids()) {
      const Node& node = graph.node(n);
      if (node.op == ops::convert) weight_[node.outputs[0]] = weight_[node.inputs[0]];
      forward_[n] = !node.outputs.empty() && !after_sum[node.outputs[0]];
    }
  }

  Graph run() {
    cut_of_all_ = choose();
    if (cut_of_all_.pieces == 1) return graph_;
    for (NodeId n : graph_.node_ids()) {
      const Node& node = graph_.node(n);
      if (auto way = way_of(n)) {
        run_in_pieces(node, *way);
        continue;
      }
      for (ValueId v : node.inputs) put_together(v);
      rewriter_.copy(node);
    }
    for (const auto& output : graph_.outputs) put_together(output.value);
    return prune(rewriter_.finish());
  }

 private:
  bool of_tokens(ValueId v) const {
    const Shape& shape = graph_[v].shape;
    return shape.size() >= 2 && shape[0] == tokens_[0] && shape[1] == tokens_[1];
  }
  bool is_split_product(NodeId n) const {
    const Node& node = graph_.node(n);
    return node.op == ops::linear && forward_[n] && tokens_.size() == 2 && of_tokens(node.outputs[0]) &&
           graph_[node.outputs[0]].shape.size() == 3 &&
           weight_[node.inputs[1]].kind == Placement::Kind::shard;
  }

  PieceCut choose() const {
    std::vector<NodeId> products;
    for (NodeId n : graph_.node_ids())
      if (is_split_product(n)) products.push_back(n);
    if (products.empty()) return {};
    const int64_t wanted = context_.options.tp_pieces;
    if (wanted == kPiecesByRates)
      return best_cut(beside_collectives(products), tokens_[0], tokens_[1], shards_, context_.options.travel);
    if (auto cut = cut_into(wanted, tokens_[0], tokens_[1], shards_)) return *cut;
    if (tokens_[0] > 1)
      throw UserError(str("[tp] compile.tp_pieces is ", wanted, ", and a micro-batch of ", tokens_[0],
                          " sequences has no ", wanted,
                          " equal parts of whole sequences; choose a "
                          "divisor of batch.micro, or 1 for whole products"));
    throw UserError(str("[tp] compile.tp_pieces is ", wanted, ", and a sequence of ", tokens_[1],
                        " tokens has no ", wanted * shards_, " equal parts",
                        shards_ > 1 ? str(" (", wanted, " pieces on each of ", shards_, " ranks of tp)") : "",
                        "; choose a number that divides, or 1 for whole products"));
  }
  // Which collectives a product runs with. If ranks have parts of sequences, the input of a column product is
  // gathered, and the terms of a row product are exchanged. If they have whole sequences, nothing is gathered
  // before a product; terms are exchanged, and then gathered.
  std::vector<TravellingProducts> beside_collectives(const std::vector<NodeId>& products) const {
    std::map<ValueId, TravellingProducts> gathered;  // by input
    std::vector<TravellingProducts> out;
    const double share = static_cast<double>(ranks_ - 1) / static_cast<double>(ranks_);
    for (NodeId n : products) {
      const Node& node = graph_.node(n);
      const Value &x = graph_[node.inputs[0]], &y = graph_[node.outputs[0]];
      const bool columns = weight_[node.inputs[1]].dim == 0;
      const double inner = static_cast<double>(x.shape.back()) / static_cast<double>(columns ? 1 : ranks_);
      const double outputs = static_cast<double>(numel(y.shape)) / static_cast<double>(columns ? ranks_ : 1);
      const Value& travels = columns ? x : y;
      TravellingProducts& one = columns ? gathered[node.inputs[0]] : out.emplace_back();
      one.flops += 2 * outputs * inner;
      // 2 flops for each element of a quarter of a wave
      one.waves += context_.options.travel.wave * inner / 2;
      one.collectives = shards_ > 1 ? 1 : columns ? 0 : 2;
      one.bytes = one.collectives * share * static_cast<double>(numel(travels.shape)) *
                  static_cast<double>(size_of(travels.dtype));
    }
    for (const auto& [input, one] : gathered) out.push_back(one);
    return out;
  }

  // The way of a node on pieces: all its outputs are cut; its inputs are cut, too, or whole.
  std::optional<ShardWay> way_of(NodeId n) const {
    const Node& node = graph_.node(n);
    const Op& row = op_row(node.op);
    if (!forward_[n] || node.body || !of_tokens(node.outputs[0])) return {};
    if (node.op == ops::linear ? !is_split_product(n) : !follows(node, row)) return {};
    const Placement cut = Shard(cut_of_all_.dim);
    for (const auto& way : shard_ways(graph_, node, cut_of_all_.pieces, {})) {
      auto is_cut = [&](const Placement& p) { return p == cut; };
      if (std::all_of(way.out.begin(), way.out.end(), is_cut) &&
          std::any_of(way.in.begin(), way.in.end(), is_cut) &&
          std::all_of(way.in.begin(), way.in.end(),
                      [&](const Placement& p) { return p == cut || p == Replicate(); }))
        return way;
    }
    return {};
  }
  // Whether a node follows its input in pieces: it works token by token, or it makes the input of a product,
  // whose whole form is then its gathered pieces. Dropout does not follow, because its random numbers belong
  // to elements of the whole.
  bool follows(const Node& node, const Op& row) const {
    const bool kind =
        row.kind == OpKind::pointwise || (row.kind == OpKind::composite && row.library == Library::none &&
                                          node.op != ops::dropout && node.op != ops::embedding);
    const auto& readers = users_[node.outputs[0]];
    return kind &&
           (std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return cut_[v]; }) ||
            std::any_of(readers.begin(), readers.end(), [&](NodeId n) { return is_split_product(n); }));
  }

  Shape piece_of(Shape shape) const {
    shape[cut_of_all_.dim] /= cut_of_all_.pieces;
    return shape;
  }
  void run_in_pieces(const Node& node, const ShardWay& way) {
    std::vector<std::vector<ValueId>> inputs(cut_of_all_.pieces);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      const bool whole = way.in[i] == Replicate();
      if (whole) put_together(v);
      const auto& parts = whole ? std::vector<ValueId>(inputs.size(), rewriter_.at(v)) : parts_of(v, node.at);
      for (size_t p = 0; p < inputs.size(); ++p) inputs[p].push_back(parts[p]);
    }
    for (const auto& in : inputs) append(node, in);
    for (ValueId v : node.outputs) cut_[v] = true;
    for (ValueId v : node.outputs)
      if (std::any_of(users_[v].begin(), users_[v].end(), [&](NodeId n) { return !way_of(n); }))
        // Here, so that a value that is saved for the backward pass belongs to the forward pass.
        put_together(v);
  }
  // Writes one piece of the node: its outputs join the pieces of the whole outputs.
  void append(const Node& node, const std::vector<ValueId>& inputs) {
    std::vector<std::pair<DType, Shape>> types;
    std::vector<Shape> shapes;
    for (ValueId v : node.outputs)
      shapes.push_back(piece_of(graph_[v].shape)), types.emplace_back(graph_[v].dtype, shapes.back());
    const auto made = rewriter_.graph().append(
        node.op, inputs, localize_attrs(op_row(node.op), node.attrs, shapes), types, node.at);
    for (size_t i = 0; i < made.size(); ++i) pieces_[node.outputs[i]].push_back(made[i]);
  }

  // The pieces of a whole value: broadcasts and constants of the size of a piece, else slices.
  const std::vector<ValueId>& parts_of(ValueId v, const SourceLine& at) {
    std::vector<ValueId>& parts = pieces_[v];
    if (!parts.empty()) return parts;
    const NodeId producer = graph_[v].producer;
    if (producer.valid() && is_even(graph_.node(producer))) {
      const Node& node = graph_.node(producer);
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(rewriter_.at(input));
      for (int64_t p = 0; p < cut_of_all_.pieces; ++p) append(node, inputs);
      return parts;
    }
    const Value& value = graph_[v];
    const Shape piece = piece_of(value.shape);
    for (int64_t p = 0; p < cut_of_all_.pieces; ++p) {
      List start(piece.size(), 0), limit(piece.begin(), piece.end());
      start[cut_of_all_.dim] = p * piece[cut_of_all_.dim], limit[cut_of_all_.dim] += start[cut_of_all_.dim];
      parts.push_back(rewriter_.graph().append(
          ops::slice, {rewriter_.at(v)},
          {{"start", Attr(start)}, {"limit", Attr(limit)}, {"step", Attr(List(piece.size(), 1))}},
          {{value.dtype, piece}}, at)[0]);
    }
    return parts;
  }
  // Whether all pieces of its outputs have equal types.
  bool is_even(const Node& node) const {
    if (node.op == ops::full) return true;
    if (node.op != ops::broadcast) return false;
    for (const auto& way : shard_ways(graph_, node, cut_of_all_.pieces, {}))
      if (way.out[0] == Shard(cut_of_all_.dim) && way.in[0] == Replicate()) return true;
    return false;
  }
  void put_together(ValueId v) {
    if (rewriter_.mapped(v)) return;
    const Node& node = graph_.producer(v);
    if (is_light(node)) {
      put_together(node.inputs[0]);
      rewriter_.copy(node);
      return;
    }
    const Value& value = graph_[v];
    rewriter_.map(v,
                  rewriter_.graph().append(ops::concat, pieces_[v],
                                           {{"dim", Attr(int64_t{cut_of_all_.dim})}, {"pieces", Attr(true)}},
                                           {{value.dtype, value.shape}}, node.at)[0]);
  }
  // Whether readers may compute it again from its one input. This excludes products, which read memory.
  bool is_light(const Node& node) const {
    if (node.op == ops::linear || node.inputs.size() != 1 || node.outputs.size() != 1) return false;
    const auto& readers = users_[node.outputs[0]];
    return std::none_of(readers.begin(), readers.end(),
                        [&](NodeId n) { return graph_.node(n).op == ops::dot; });
  }

  const Graph& graph_;
  const PassContext& context_;
  const int64_t ranks_;
  const int64_t shards_;  // ranks that share a sequence in parts
  PieceCut cut_of_all_;
  PerValue<std::vector<NodeId>> users_;
  Shape tokens_;                           // [sequences, tokens] of the batch
  PerValue<Placement> weight_;             // of state on tp, and of its copies in another dtype
  PerNode<bool> forward_;                  // reads no sum over micro-batches
  PerValue<bool> cut_;                     // made in pieces
  PerValue<std::vector<ValueId>> pieces_;  // of the new graph
  Rewriter rewriter_;
};
}  // namespace

Graph cut_products(Graph graph, const PassContext& context) {
  const int mesh_dim = context.mesh.find("tp");
  if (mesh_dim < 0 || context.mesh.shape[mesh_dim] == 1 || context.options.tp_pieces == 1) return graph;
  return Cutter(graph, context, mesh_dim).run();
}

}  // namespace lockstep::compiler
