// The graph: flat, functional SSA. Values and nodes are ids into two vectors; nodes are in a valid order
// (inputs before users). State enters as inputs and leaves as outputs of the same name, which reuse the
// input's storage.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/ir/id.h"
#include "core/ir/op_id.h"
#include "core/mesh/layout.h"
#include "core/types/shape.h"

namespace lockstep {

using ValueId = Id<struct Value>;
using NodeId = Id<struct Node>;
inline constexpr ValueId kNoValue;
inline constexpr NodeId kNoNode;
template <class Item>
using PerValue = IdVector<ValueId, Item>;
template <class Item>
using PerNode = IdVector<NodeId, Item>;

// The user's line that made a node, and the FQN of the layer it belongs to ("" outside a layer).
struct SourceLine {
  std::string file;
  int line = 0;
  std::string scope;
  std::string text() const;  // "gpt.cpp:12 (blocks.0.attn)"; "?" when unknown
};

using Attr = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, DType>;

// An attribute is absent or of another type: "needs the attribute \"hi\", a number". A defect of the code
// that wrote the node.
class AttrError : public InternalError {
 public:
  using InternalError::InternalError;
};

// Named constants of a node, in the order of insertion.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, Attr>> items) : items_(items) {}
  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(const std::string& name, Attr value);
  // AttrError when absent or of another type.
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;  // an integer reads as a number too
  bool flag(std::string_view name) const;      // false when absent
  const std::string& word(std::string_view name) const;
  const std::vector<int64_t>& list(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const std::vector<std::pair<std::string, Attr>>& items() const { return items_; }
  bool operator==(const Attrs&) const = default;

 private:
  const Attr* find(std::string_view name) const;
  std::vector<std::pair<std::string, Attr>> items_;
};

struct Value {
  DType dtype = DType::f32;
  Shape shape;
  Layout layout;    // placements on graph.mesh; empty = Replicate everywhere
  NodeId producer;  // kNoNode: a graph input
  int index = 0;    // which output of the producer
  bool operator==(const Value&) const = default;
};

inline int64_t bytes_of(const Value& value) { return bytes_of(value.dtype, value.shape); }

struct Graph;

struct Node {
  OpId op;  // names a row of the op table
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  SourceLine at;
  std::shared_ptr<const Graph> body;  // of a `fused` node: primitives over its inputs
};

enum class InputKind {
  state,   // parameter, moment, buffer: name is the FQN
  batch,   // differs per micro-batch: "ids", "targets"
  scalar,  // rank-0, set by the host each step: "optim.lr", "rng.step"
  value,   // plain argument (bodies of fused nodes, tests)
};
enum class OutputKind { state, metric, value };

struct GraphInput {
  InputKind kind = InputKind::value;
  std::string name;
  ValueId value;
};
struct GraphOutput {
  OutputKind kind = OutputKind::value;
  std::string name;
  ValueId value;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  Mesh mesh;

  const Value& operator[](ValueId id) const { return values[id.index()]; }
  Value& operator[](ValueId id) { return values[id.index()]; }
  const Node& node(NodeId id) const { return nodes[id.index()]; }
  Node& node(NodeId id) { return nodes[id.index()]; }
  // Of a value that a node produces.
  const Node& producer(ValueId id) const { return node((*this)[id].producer); }
  IdRange<ValueId> value_ids() const { return IdRange<ValueId>(values.size()); }
  IdRange<NodeId> node_ids() const { return IdRange<NodeId>(nodes.size()); }

  ValueId add_input(InputKind kind, const std::string& name, DType dtype, Shape shape);
  void add_output(OutputKind kind, const std::string& name, ValueId value);
  // Appends a node with outputs of the given types; returns its outputs. Types are not inferred here
  // (core/ops does that).
  std::vector<ValueId> append(OpId op, std::vector<ValueId> inputs, Attrs attrs,
                              const std::vector<std::pair<DType, Shape>>& types, SourceLine at = {});
  ValueId find_input(std::string_view name) const;  // kNoValue when absent
  ValueId find_output(std::string_view name) const;
};

std::string_view name(InputKind kind);
std::string_view name(OutputKind kind);

}  // namespace lockstep
