// Merges common subexpressions by structure, and applies a table of laws. It has only laws that are exact for
// every input bit pattern.
#include "compiler/lower/simplify.h"

#include <map>
#include <optional>
#include <sstream>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/apply.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
// A law: if it applies to a node (inputs already rewritten), the value that replaces the node's only output.
struct Law {
  const char* name;
  std::optional<ValueId> (*apply)(const Graph&, const Node&);
};

const Node* producer(const Graph& graph, ValueId id) {
  return !graph[id].producer.valid() ? nullptr : &graph.producer(id);
}

bool is_full(const Graph& graph, ValueId id, double value) {
  const Node* node = producer(graph, id);
  if (node && node->op == ops::broadcast) return is_full(graph, node->inputs[0], value);
  return node && node->op == ops::full && node->attrs.number("value") == value;
}
bool same_type(const Graph& graph, ValueId a, ValueId b) {
  return graph[a].dtype == graph[b].dtype && graph[a].shape == graph[b].shape;
}

const Law kLaws[] = {
    {"convert to the same dtype",
     [](const Graph& g, const Node& n) -> std::optional<ValueId> {
       if (n.op == ops::convert && same_type(g, n.inputs[0], n.outputs[0])) return n.inputs[0];
       return {};
     }},
    // But not barriers of rematerialize, which prevent copies from being merged with originals.
    {"reshape, broadcast to the same shape",
     [](const Graph& g, const Node& n) -> std::optional<ValueId> {
       if (n.attrs.has("again")) return {};
       if ((n.op == ops::reshape || n.op == ops::broadcast) && same_type(g, n.inputs[0], n.outputs[0]))
         return n.inputs[0];
       return {};
     }},
    {"permute in order",
     [](const Graph&, const Node& n) -> std::optional<ValueId> {
       if (n.op != ops::permute) return {};
       const auto& order = n.attrs.list("order");
       for (size_t i = 0; i < order.size(); ++i)
         if (order[i] != static_cast<int64_t>(i)) return {};
       return n.inputs[0];
     }},
    {"neg(neg(x)) = x",
     [](const Graph& g, const Node& n) -> std::optional<ValueId> {
       if (n.op != ops::neg) return {};
       const Node* inner = producer(g, n.inputs[0]);
       return inner && inner->op == ops::neg ? std::optional(inner->inputs[0]) : std::nullopt;
     }},
    {"x * 1 = x",
     [](const Graph& g, const Node& n) -> std::optional<ValueId> {
       if (n.op != ops::mul) return {};
       if (is_full(g, n.inputs[1], 1)) return n.inputs[0];
       if (is_full(g, n.inputs[0], 1)) return n.inputs[1];
       return {};
     }},
    {"x / 1 = x",
     [](const Graph& g, const Node& n) -> std::optional<ValueId> {
       if (n.op == ops::div && is_full(g, n.inputs[1], 1)) return n.inputs[0];
       return {};
     }},
    {"concat of one",
     [](const Graph&, const Node& n) -> std::optional<ValueId> {
       if (n.op == ops::concat && n.inputs.size() == 1) return n.inputs[0];
       return {};
     }},
};

std::string key_of(const Node& node, const std::vector<ValueId>& inputs) {
  std::string key(node.op.name());
  for (ValueId v : inputs) key += str(" ", v);
  for (const auto& [name, value] : node.attrs.items()) {
    key += str(" ", name, "=");
    std::visit(
        [&](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, DType>)
            key += std::string(lockstep::name(v));
          else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, double>)
            key += number_text(v);
          else
            key += str(v);
        },
        value);
  }
  return key;
}
}  // namespace

Graph simplify(Graph graph, const PassContext& context) {
  Rewriter rewriter(graph);
  Graph& made = rewriter.graph();
  std::map<std::string, std::vector<ValueId>> seen;
  std::map<std::shared_ptr<const Graph>, std::shared_ptr<const Graph>> bodies;  // shared by updates
  for (const Node& node : graph.nodes) {
    OpKind kind = op_row(node.op).kind;
    std::vector<ValueId> inputs;
    for (ValueId v : node.inputs) inputs.push_back(rewriter.at(v));
    // Collectives, updates and fused nodes are never merged; sum_lanes is a pure function.
    bool pure =
        kind != OpKind::collective && kind != OpKind::update && kind != OpKind::structural && !node.body;
    std::string key = pure ? key_of(node, inputs) : "";
    if (pure) {
      if (auto found = seen.find(key); found != seen.end()) {
        for (size_t i = 0; i < node.outputs.size(); ++i) rewriter.map(node.outputs[i], found->second[i]);
        continue;
      }
    }
    auto outputs = rewriter.copy(node);
    if (node.body && kind == OpKind::update) {
      auto [simpler, fresh] = bodies.try_emplace(node.body);
      if (fresh) simpler->second = std::make_shared<const Graph>(simplify(*node.body, context));
      made.nodes.back().body = simpler->second;
    }
    if (pure && outputs.size() == 1)
      for (const Law& law : kLaws)
        if (auto replacement = law.apply(made, made.nodes.back())) {
          outputs[0] = *replacement;
          rewriter.map(node.outputs[0], *replacement);
          break;
        }
    if (pure) seen[key] = outputs;
  }
  return prune(rewriter.finish());
}

}  // namespace lockstep::compiler
