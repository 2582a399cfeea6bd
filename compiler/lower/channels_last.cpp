// One walk: each value is first made in one order of dims, and in the other order when it is needed.
#include "compiler/lower/channels_last.h"

#include <algorithm>
#include <numeric>

#include "compiler/codegen/target.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
using List = std::vector<int64_t>;

// Orders of a permute: from channels first to channels last, and back.
List to_last(size_t rank) {
  List order(rank);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}
List inverse(const List& order) {
  List out(order.size());
  for (size_t d = 0; d < order.size(); ++d) out[order[d]] = static_cast<int64_t>(d);
  return out;
}
List to_first(size_t rank) { return inverse(to_last(rank)); }
template <class L>
L picked(const L& list, const List& order) {
  L out;
  for (int64_t d : order) out.push_back(list[d]);
  return out;
}

class ChannelsLastWriter {
 public:
  ChannelsLastWriter(const Graph& graph, const WantsChannelsLast& wants)
      : graph_(graph),
        wants_(wants),
        rewriter_(graph),
        last_(graph.values.size(), kNoValue),
        weight_(graph.values.size(), false) {}

  Graph write() {
    for (const Node& node : graph_.nodes) {
      at_ = node.at;
      if (!rewritten(node)) {
        for (ValueId v : node.inputs) first(v);
        rewriter_.copy(node);
        see_permute(node);
      }
    }
    for (const auto& output : graph_.outputs) first(output.value);
    return prune(rewriter_.finish());
  }
  // Bytes that kernels permute, and bytes of the tensors of the convolutions without weights.
  double permuted() const { return permuted_; }
  double convolved() const { return convolved_; }

 private:
  Graph& made() { return rewriter_.graph(); }
  ValueId append(OpId op, std::vector<ValueId> inputs, Attrs attrs, DType dtype, const Shape& shape) {
    return made().append(op, std::move(inputs), std::move(attrs), {{dtype, shape}}, at_)[0];
  }
  double bytes(ValueId v) {
    return static_cast<double>(numel(made()[v].shape)) * static_cast<double>(size_of(made()[v].dtype));
  }
  // The elements of v in another order of dims; a reshape if only dims of one element change places.
  ValueId permute(ValueId v, const List& order) {
    const Shape shape = picked(made()[v].shape, order);
    List moving;
    for (int64_t d : order)
      if (made()[v].shape[d] != 1) moving.push_back(d);
    if (std::is_sorted(moving.begin(), moving.end()))
      return append(ops::reshape, {v}, {{"shape", shape}}, made()[v].dtype, shape);
    return append(ops::permute, {v}, {{"order", order}}, made()[v].dtype, shape);
  }
  // Weights and their gradients are always permuted, and do not count.
  ValueId counted(ValueId v, bool weight) {
    if (!weight && made().producer(v).op == ops::permute) permuted_ += 2 * bytes(v);
    return v;
  }
  // The view through which a convolution reads a channels-last value, or through which it wrote one.
  ValueId seen_first(ValueId v) {
    const size_t rank = made()[v].shape.size();
    return append(ops::permute, {v}, {{"order", to_first(rank)}, {"alias", true}}, made()[v].dtype,
                  picked(made()[v].shape, to_first(rank)));
  }
  ValueId seen_last(ValueId v) {
    const size_t rank = made()[v].shape.size();
    return append(ops::permute, {v}, {{"order", to_last(rank)}, {"alias", true}}, made()[v].dtype,
                  picked(made()[v].shape, to_last(rank)));
  }

  // An old value in the graph's original order.
  ValueId first(ValueId v) {
    if (!rewriter_.mapped(v))
      rewriter_.map(v, counted(permute(last_[v], to_first(graph_[v].shape.size())), weight_[v]));
    return rewriter_.at(v);
  }
  // An old value, channels last. Broadcasts and constants are made again in that order.
  ValueId last(ValueId v, bool weight = false) {
    if (last_[v] != kNoValue) return last_[v];
    const Value& value = graph_[v];
    const List order = to_last(value.shape.size());
    const Node* node = value.producer.valid() ? &graph_.producer(v) : nullptr;
    if (node && (node->op == ops::broadcast || node->op == ops::full || node->op == ops::iota)) {
      Attrs attrs = node->attrs;
      attrs.set("shape", picked(value.shape, order));
      if (node->op == ops::broadcast) attrs.set("dims", places(node->attrs.list("dims"), order));
      if (node->op == ops::iota) attrs.set("dim", inverse(order)[node->attrs.integer("dim")]);
      std::vector<ValueId> inputs;
      for (ValueId input : node->inputs) inputs.push_back(first(input));
      return last_[v] = append(node->op, inputs, attrs, value.dtype, picked(value.shape, order));
    }
    return last_[v] = counted(permute(first(v), order), weight);
  }
  // The positions of dims in an order.
  static List places(const List& dims, const List& order) {
    const List at = inverse(order);
    List out;
    for (int64_t d : dims) out.push_back(at[d]);
    return out;
  }
  bool lies_last(ValueId v) const { return last_[v] != kNoValue; }
  bool any_last(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return lies_last(v); });
  }

  // Whether the node was rewritten with channels-last tensors.
  bool rewritten(const Node& node) {
    if (wants_(graph_, node)) return convolution(node);
    if (node.outputs.size() != 1 || node.inputs.empty() || !any_last(node) || node.attrs.has("again"))
      return false;
    switch (op_row(node.op).kind) {
      case OpKind::pointwise:
        return same_dims(node, node.attrs);
      case OpKind::reduce:
        return reduction(node);
      case OpKind::view:
        return view(node);
      default:
        return false;
    }
  }
  bool convolution(const Node& node) {
    const bool makes_weight = node.op == ops::convolution_grad_weight;
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      const bool tensor = graph_[v].shape.size() > 2;  // a bias is a vector
      const bool weight = i == 1 && !makes_weight;
      inputs.push_back(tensor ? seen_first(last(v, weight)) : first(v));
      if (!weight) convolved_ += bytes(inputs.back());
    }
    const Value& out = graph_[node.outputs[0]];
    const ValueId y = append(node.op, inputs, node.attrs, out.dtype, out.shape);
    if (!makes_weight) convolved_ += bytes(y);
    weight_[node.outputs[0]] = makes_weight;
    last_[node.outputs[0]] = seen_last(y);
    return true;
  }
  // An op whose inputs and output have the same dims in the same order.
  bool same_dims(const Node& node, const Attrs& attrs) {
    const Value& out = graph_[node.outputs[0]];
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) {
      inputs.push_back(last(v));
      if (weight_[v]) weight_[node.outputs[0]] = true;
    }
    last_[node.outputs[0]] =
        append(node.op, inputs, attrs, out.dtype, picked(out.shape, to_last(out.shape.size())));
    return true;
  }
  bool reduction(const Node& node) {
    if (!node.attrs.has("dims")) return false;
    const Value &in = graph_[node.inputs[0]], &out = graph_[node.outputs[0]];
    const List order = to_last(in.shape.size()), &dims = node.attrs.list("dims");
    List kept, kept_now;  // by the old numbers
    auto reduced = [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); };
    for (int64_t d = 0; d < static_cast<int64_t>(order.size()); ++d) {
      if (!reduced(d)) kept.push_back(d);
      if (!reduced(order[d])) kept_now.push_back(order[d]);
    }
    const bool as_it_was = kept == kept_now;
    if (!as_it_was && (kept.size() < 3 || kept_now != picked(kept, to_last(kept.size())))) return false;
    Attrs attrs = node.attrs;
    List now = places(dims, order);
    std::sort(now.begin(), now.end());
    attrs.set("dims", now);
    const Shape shape = as_it_was ? out.shape : picked(out.shape, to_last(out.shape.size()));
    const ValueId v = append(node.op, {last_[node.inputs[0]]}, attrs, out.dtype, shape);
    if (as_it_was)
      rewriter_.map(node.outputs[0], v);
    else
      last_[node.outputs[0]] = v;
    return true;
  }
  bool view(const Node& node) {
    const ValueId in = node.inputs[0];
    const List order = to_last(graph_[in].shape.size());
    Attrs attrs = node.attrs;
    if (node.op == ops::pad || node.op == ops::slice) {
      for (const char* name : {"lo", "hi", "start", "limit", "step"})
        if (attrs.has(name)) attrs.set(name, picked(node.attrs.list(name), order));
      return same_dims(node, attrs);
    }
    if (node.op == ops::concat) {
      attrs.set("dim", inverse(order)[node.attrs.integer("dim")]);
      return same_dims(node, attrs);
    }
    if (node.op != ops::permute) return false;
    const List now = places(node.attrs.list("order"), order);
    if (!std::is_sorted(now.begin(), now.end())) return false;
    rewriter_.map(node.outputs[0], last_[in]);  // the program already asked for channels last
    return true;
  }
  // A value that a program has channels last, and permutes for its convolutions.
  void see_permute(const Node& node) {
    const size_t rank = node.outputs.empty() ? 0 : graph_[node.outputs[0]].shape.size();
    if (node.op == ops::permute && rank > 2 && node.attrs.list("order") == to_first(rank))
      last_[node.outputs[0]] = rewriter_.at(node.inputs[0]);
  }

  const Graph& graph_;
  const WantsChannelsLast& wants_;
  Rewriter rewriter_;
  PerValue<ValueId> last_;  // of the old graph: the channels-last value
  PerValue<bool> weight_;   // of the old graph: the gradient of a weight, and values computed from it
  SourceLine at_;
  double permuted_ = 0, convolved_ = 0;
};
}  // namespace

Graph with_channels_last(const Graph& graph, const WantsChannelsLast& wants) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [&](const Node& node) { return wants(graph, node); }))
    return graph;
  ChannelsLastWriter writer(graph, wants);
  Graph made = writer.write();
  return writer.permuted() * 2 > writer.convolved() ? graph : made;
}

Graph channels_last(Graph graph, const PassContext& context) {
  const Target& target = target_of(context.options);
  const TargetOptions options = target_options(context.options);
  return with_channels_last(graph, [&](const Graph& g, const Node& node) {
    return op_row(node.op).library == Library::convolution && target.wants_channels_last(g, node, options);
  });
}

}  // namespace lockstep::compiler
