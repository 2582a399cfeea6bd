// Chooses which dims of a product are padded, by cost and gain, and writes the pads and slices.
#include "compiler/lower/pad_products.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
using List = std::vector<int64_t>;
constexpr int kNone = -1;

// A dim of the product, and its position in each tensor.
struct Role {
  int64_t size = 0;
  int a = kNone, b = kNone, d = kNone;
  bool batch = false;
};

bool has(const List& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); }

std::vector<Role> roles_of(const Graph& graph, const Node& node) {
  const Shape &a = graph[node.inputs[0]].shape, &b = graph[node.inputs[1]].shape;
  const int last_a = static_cast<int>(a.size()) - 1;
  std::vector<Role> out;
  if (node.op == ops::linear) {
    for (int i = 0; i < last_a; ++i) out.push_back({.size = a[i], .a = i, .d = i});
    out.push_back({.size = b[1], .a = last_a, .b = 1});
    out.push_back({.size = b[0], .b = 0, .d = last_a});
    return out;
  }
  const List &lb = node.attrs.list("lhs_batch"), &rb = node.attrs.list("rhs_batch"),
             &lc = node.attrs.list("lhs_contract"), &rc = node.attrs.list("rhs_contract");
  int d = 0;
  for (size_t i = 0; i < lb.size(); ++i)
    out.push_back({a[lb[i]], static_cast<int>(lb[i]), static_cast<int>(rb[i]), d++, true});
  for (size_t i = 0; i < lc.size(); ++i)
    out.push_back({.size = a[lc[i]], .a = static_cast<int>(lc[i]), .b = static_cast<int>(rc[i])});
  for (int i = 0; i <= last_a; ++i)
    if (!has(lb, i) && !has(lc, i)) out.push_back({.size = a[i], .a = i, .d = d++});
  for (int i = 0; i < static_cast<int>(b.size()); ++i)
    if (!has(rb, i) && !has(rc, i)) out.push_back({.size = b[i], .b = i, .d = d++});
  return out;
}

// Elements added to each dim of the operands (inputs in order) and of the output.
struct Padding {
  std::vector<List> in;
  List out;
  double flops = 0, padded_flops = 0;
};
bool is_padded(const List& more) {
  return std::any_of(more.begin(), more.end(), [](int64_t n) { return n != 0; });
}
Shape longer(Shape shape, const List& more) {
  for (size_t d = 0; d < shape.size(); ++d) shape[d] += more[d];
  return shape;
}

// The padding that makes the rows of a product multiples of `multiple`; none if they already are, or cannot
// be.
std::optional<Padding> padding_of(const Graph& graph, const Node& node, int64_t multiple) {
  if (node.op != ops::dot && node.op != ops::linear) return {};
  Padding out;
  for (ValueId v : node.inputs) out.in.emplace_back(graph[v].shape.size(), 0);
  const Shape& d = graph[node.outputs[0]].shape;
  out.out.assign(d.size(), 0);
  const auto last = [](const auto& list) { return static_cast<int>(list.size()) - 1; };
  bool any = false;
  out.flops = out.padded_flops = 2;
  for (const Role& role : roles_of(graph, node)) {
    const bool row = (role.a != kNone && role.a == last(out.in[0])) ||
                     (role.b != kNone && role.b == last(out.in[1])) ||
                     (role.d != kNone && role.d == last(out.out));
    const int64_t more = row ? (multiple - role.size % multiple) % multiple : 0;
    if (role.size == 0 || (more && role.batch)) return {};
    out.flops *= static_cast<double>(role.size), out.padded_flops *= static_cast<double>(role.size + more);
    if (!more) continue;
    any = true;
    if (role.a != kNone) out.in[0][role.a] = more;
    if (role.b != kNone) out.in[1][role.b] = more;
    if (role.d != kNone) out.out[role.d] = more;
    if (node.inputs.size() > 2 && role.a == kNone) out.in[2][0] = more;  // a bias runs along linear's output
  }
  return any ? std::optional(out) : std::nullopt;
}

using Padded = std::pair<ValueId, List>;  // an operand, and the elements added to its dims

class PaddedProductsWriter {
 public:
  PaddedProductsWriter(const Graph& graph, const std::function<ProductRows(DType)>& rule)
      : graph_(graph), rule_(rule), rewriter_(graph) {
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      if (auto padding = padding_of(graph.nodes[n])) chosen_.emplace(n, std::move(*padding));
    while (leave_what_loses()) continue;
  }
  Graph write() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto padding = chosen_.find(n);
      if (padding != chosen_.end())
        product(graph_.nodes[n], padding->second);
      else
        rewriter_.copy(graph_.nodes[n]);
    }
    return rewriter_.finish();
  }

 private:
  std::optional<Padding> padding_of(const Node& node) const {
    const ProductRows rows = node.inputs.empty() ? ProductRows() : rule_(graph_[node.inputs[0]].dtype);
    return rows.multiple > 1 ? compiler::padding_of(graph_, node, rows.multiple) : std::nullopt;
  }
  // Drops unprofitable products, and returns whether any was dropped: others that shared an operand then
  // carry its copy alone.
  bool leave_what_loses() {
    readers_.clear();
    for (const auto& [n, padding] : chosen_)
      for (size_t i = 0; i < padding.in.size(); ++i)
        if (is_padded(padding.in[i])) ++readers_[{graph_.nodes[n].inputs[i], padding.in[i]}];
    return std::erase_if(chosen_,
                         [&](const auto& one) { return !pays(graph_.nodes[one.first], one.second); });
  }
  double bytes(ValueId v) const {
    return static_cast<double>(numel(graph_[v].shape)) * static_cast<double>(size_of(graph_[v].dtype));
  }
  // The output is read in place, or copied once.
  bool pays(const Node& node, const Padding& padding) const {
    const ProductRows rows = rule_(graph_[node.inputs[0]].dtype);
    const double share = padding.flops < rows.filled ? std::max(0.25, padding.flops / rows.filled) : 1;
    const double gained =
        (padding.flops / rows.ragged_flops - padding.padded_flops / rows.whole_flops) / share;
    double lost = is_padded(padding.out) ? 2 * bytes(node.outputs[0]) / rows.bytes : 0;
    for (size_t i = 0; i < padding.in.size(); ++i)
      if (is_padded(padding.in[i]))
        lost += (2 * bytes(node.inputs[i]) / rows.bytes + rows.launch) /
                static_cast<double>(readers_.at({node.inputs[i], padding.in[i]}));
    return gained > lost;
  }
  void product(const Node& node, const Padding& padding) {
    std::vector<ValueId> in;
    for (size_t i = 0; i < node.inputs.size(); ++i) in.push_back(padded(node.inputs[i], padding.in[i], node));
    const Value& out = graph_[node.outputs[0]];
    ValueId made = append(node.op, in, node.attrs, out.dtype, longer(out.shape, padding.out), node);
    if (is_padded(padding.out))
      made = append(ops::slice, {made},
                    {{"start", Attr(List(out.shape.size(), 0))},
                     {"limit", Attr(List(out.shape.begin(), out.shape.end()))},
                     {"step", Attr(List(out.shape.size(), 1))}},
                    out.dtype, out.shape, node);
    rewriter_.graph()[made].layout = out.layout;
    rewriter_.map(node.outputs[0], made);
  }
  ValueId padded(ValueId old, const List& more, const Node& node) {
    if (!is_padded(more)) return rewriter_.at(old);
    const auto [known, fresh] = made_.insert({{old, more}, kNoValue});
    if (fresh)
      known->second = append(ops::pad, {rewriter_.at(old)},
                             {{"lo", Attr(List(more.size(), 0))}, {"hi", Attr(more)}, {"value", Attr(0.0)}},
                             graph_[old].dtype, longer(graph_[old].shape, more), node);
    return known->second;
  }
  ValueId append(OpId op, const std::vector<ValueId>& in, Attrs attrs, DType dtype, const Shape& shape,
                 const Node& node) {
    return rewriter_.graph().append(op, in, std::move(attrs), {{dtype, shape}}, node.at)[0];
  }

  const Graph& graph_;
  const std::function<ProductRows(DType)>& rule_;
  Rewriter rewriter_;
  std::map<size_t, Padding> chosen_;  // by the node's index
  std::map<Padded, int> readers_;     // products that read it
  std::map<Padded, ValueId> made_;
};
}  // namespace

Graph with_padded_products(const Graph& graph, const std::function<ProductRows(DType)>& rule) {
  return PaddedProductsWriter(graph, rule).write();
}

Graph pad_products(Graph graph, const PassContext& context) {
  const Target& target = target_of(context.options);
  const TargetOptions options = target_options(context.options);
  return with_padded_products(graph, [&](DType dtype) { return target.product_rows(dtype, options); });
}

}  // namespace lockstep::compiler
