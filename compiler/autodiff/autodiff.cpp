// Reverse-mode autodiff over the op table. Gradients of a value with several readers are added in reverse
// order of the readers, which is a fixed order.
#include "compiler/autodiff/autodiff.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ir/walk.h"

namespace lockstep::compiler {

namespace {
[[noreturn]] void refuse(const Node& node, const Op& row) {
  const std::string why =
      row.kind == OpKind::lanes ? "a sum over micro-batches has no gradient, since it is known after the "
                                  "last of them; differentiate "
                                  "a value of the micro-batch itself: grad(value, inputs)"
      : row.kind == OpKind::update
          ? "an update of the state has no gradient; what is differentiated is read before it"
          : "this op has no gradient, and what is differentiated with "
            "respect to reaches the value through it; stop_gradient "
            "says that none is wanted, custom_gradient gives one";
  throw UserError(str("[", node.op, "] ", node.at.text(), ": ", why));
}

// Differentiates the nodes of a graph from `first` on in reverse, and appends the gradient nodes after them.
class Backward {
 public:
  Backward(std::shared_ptr<Builder> builder, const std::vector<ValueId>& roots)
      : builder_(std::move(builder)),
        reached_(depends_on(graph(), roots)),
        gradient_(graph().values.size()) {}

  void seed(ValueId of, Tensor dy) { add(of, dy); }
  Tensor of(ValueId v) const { return gradient_[v]; }
  void run(NodeId first, NodeId end) {
    for (NodeId n : graph().node_ids().backward())
      if (n < end && !(n < first)) visit(n);
  }

 private:
  Graph& graph() { return builder_->graph; }
  void add(ValueId v, Tensor dy) {
    Tensor& slot = gradient_[v];
    slot = slot.defined() ? apply1(ops::add, {slot, dy}) : dy;
  }
  void visit(NodeId n) {
    const Node node = graph().node(n);  // a copy: the vector grows below
    const Op& row = op_row(node.op);
    std::vector<Tensor> grads, in, out;
    bool any = false, wanted = false, statistic = false;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      grads.push_back(gradient_[node.outputs[o]]);
      if (!grads.back().defined()) continue;
      any = true;
      statistic = statistic || o + static_cast<size_t>(row.statistics) >= node.outputs.size();
    }
    std::vector<bool> wants;
    for (ValueId v : node.inputs) {
      wants.push_back(reached_[v] && is_float(graph()[v].dtype));
      wanted = wanted || wants.back();
    }
    if (!any || !wanted) return;
    for (ValueId v : node.inputs) in.emplace_back(builder_, v);
    for (ValueId v : node.outputs) out.emplace_back(builder_, v);
    AtLine line(node.at);
    std::vector<Tensor> made;
    if (row.vjp && !statistic)
      made = row.vjp({in, out, grads, wants, node.attrs});
    else if (row.expand && row.kind != OpKind::update)
      made = through_expansion(row, node, in, grads);
    else
      refuse(node, row);
    LS_CHECK(made.size() == node.inputs.size(), node.op, ": the gradient rule gives ", made.size(),
             " gradients for ", node.inputs.size(), " inputs");
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i].defined() || !wants[i]) continue;
      const Value& input = graph()[node.inputs[i]];
      LS_CHECK(made[i].shape() == input.shape && made[i].dtype() == input.dtype, node.op, " at ",
               node.at.text(), ": gradient of input ", i, " is ", made[i].text(), ", the input is ",
               shape_text(input.dtype, input.shape));
      add(node.inputs[i], made[i]);
    }
  }
  // Differentiates through the primitives of an op: if its row has no gradient rule, or if a gradient flows
  // into a statistic, which the rule does not cover, as in second derivatives.
  std::vector<Tensor> through_expansion(const Op& row, const Node& node, const std::vector<Tensor>& in,
                                        const std::vector<Tensor>& grads) {
    const NodeId first(graph().nodes.size());
    const std::vector<Tensor> values = row.expand({in, node.attrs, builder_});
    const NodeId end(graph().nodes.size());
    LS_CHECK(values.size() == grads.size(), node.op, ": the expansion gives ", values.size(), " values for ",
             grads.size(), " outputs");
    std::vector<ValueId> roots = node.inputs;
    std::erase_if(roots, [&](ValueId v) { return !reached_[v] || !is_float(graph()[v].dtype); });
    Backward inside(builder_, roots);
    for (size_t o = 0; o < values.size(); ++o)
      if (grads[o].defined()) inside.seed(values[o].id(), grads[o]);
    inside.run(first, end);
    std::vector<Tensor> out;
    std::set<ValueId> seen;  // an input that is passed twice gets its gradient once
    for (ValueId v : node.inputs) out.push_back(seen.insert(v).second ? inside.of(v) : Tensor());
    return out;
  }

  std::shared_ptr<Builder> builder_;
  PerValue<bool> reached_;  // values that depend on a root
  PerValue<Tensor> gradient_;
};

// Gives float8 products with delayed scales the number by which the loss is divided. Until a history has an
// entry, this is the only hint about the size of a gradient.
void tell_count(Graph& graph, NodeId first, ValueId seed) {
  if (graph[seed].dtype != DType::f32) return;
  for (size_t n = first.index(); n < graph.nodes.size(); ++n)
    if (Node& node = graph.nodes[n];
        node.op == ops::linear_float8_grad && node.attrs.flag("delayed") && node.inputs.size() == 4)
      node.inputs.push_back(seed);
}

// Removes the marks of functions with their own gradients.
Graph without_marks(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes) {
    if (node.op != ops::custom_gradient) {
      rewriter.copy(node);
      continue;
    }
    for (size_t o = 0; o < node.outputs.size(); ++o)
      rewriter.map(node.outputs[o], rewriter.at(node.inputs[o]));
  }
  return rewriter.finish();
}
}  // namespace

std::vector<Tensor> vjp_graph(const std::shared_ptr<Builder>& builder, const std::vector<Seed>& seeds,
                              const std::vector<ValueId>& roots) {
  Backward backward(builder, roots);
  size_t end = 0;
  for (const auto& [of, gradient] : seeds) {
    backward.seed(of, gradient);
    if (const NodeId producer = builder->graph[of].producer; producer.valid())
      end = std::max(end, producer.index() + 1);
  }
  backward.run(NodeId(0), NodeId(end));
  std::vector<Tensor> out;
  for (ValueId root : roots) out.push_back(backward.of(root));
  return out;
}

Graph differentiate(Graph graph, const PassContext&) {
  auto builder = std::make_shared<Builder>();
  Rewriter rewriter(graph);
  builder->graph = std::move(rewriter.graph());
  // The rewriter maps old ids; the builder's graph is where nodes are appended.
  PerValue<ValueId> map(graph.values.size(), kNoValue);
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    map[graph.inputs[i].value] = builder->graph.inputs[i].value;
  for (const Node& node : graph.nodes) {
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(map[v]);
    if (node.op != ops::grad && node.op != ops::vjp) {
      std::vector<std::pair<DType, Shape>> types;
      for (ValueId v : node.outputs) types.emplace_back(graph[v].dtype, graph[v].shape);
      auto made = builder->graph.append(node.op, inputs, node.attrs, types, node.at);
      builder->graph.nodes.back().body = node.body;
      for (size_t i = 0; i < made.size(); ++i) map[node.outputs[i]] = made[i];
      continue;
    }
    AtLine line(node.at);
    const bool scaled = node.op == ops::grad && node.attrs.flag("scaled");
    const size_t terms = node.attrs.has("terms") ? static_cast<size_t>(node.attrs.integer("terms")) : 1;
    const std::vector<ValueId> roots(inputs.begin() + static_cast<std::ptrdiff_t>(2 * terms + scaled),
                                     inputs.end());
    auto whole = [&](const std::vector<Tensor>& gradients, size_t i) {
      return gradients[i].defined() ? gradients[i] : full_like(Tensor(builder, roots[i]), 0);
    };
    if (node.op == ops::vjp) {  // its nodes come before their readers, and are differentiated with them
      auto gradients = vjp_graph(builder, {{inputs[0], Tensor(builder, inputs[1])}}, roots);
      for (size_t i = 0; i < roots.size(); ++i) map[node.outputs[i]] = whole(gradients, i).id();
      continue;
    }
    std::vector<Seed> seeds;
    Tensor unscale, largest;
    for (size_t t = 0; t < terms; ++t) {
      Tensor sum(builder, inputs[2 * t]), count(builder, inputs[2 * t + 1]);
      Tensor total = sum_counts(count);
      Tensor seed = 1.0 / convert(total, sum.dtype());
      if (scaled) {  // a power of two: both products are exact
        const Tensor scale(builder, inputs[2 * terms]);
        seed = seed * scale;
        if (t == 0) unscale = 1.0 / scale;
      }
      seeds.push_back({sum.id(), seed});
      largest = t == 0 ? seed : maximum(largest, seed);
    }
    const NodeId first(builder->graph.nodes.size());
    auto gradients = vjp_graph(builder, seeds, roots);
    tell_count(builder->graph, first, largest.id());
    const size_t of_rows = node.attrs.has("rows") ? static_cast<size_t>(node.attrs.integer("rows")) : 0;
    for (size_t i = 0; i < roots.size(); ++i) {
      Tensor mine = whole(gradients, i);
      if (scaled) mine = mine * broadcast_to(unscale, mine.shape());
      map[node.outputs[i]] = i + of_rows < roots.size() ? apply1(ops::sum_lanes, {mine}).id() : mine.id();
    }
  }
  for (const auto& output : graph.outputs)
    builder->graph.add_output(output.kind, output.name, map[output.value]);
  return prune(without_marks(builder->graph));
}

}  // namespace lockstep::compiler
