// Bodies of updates for multi-tensor kernels.
#include <limits>

#include "compiler/codegen/kernel.h"
#include "core/base/error.h"
#include "core/functions/delayed_float8.h"
#include "core/functions/functions.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

namespace {
constexpr double kDecayMark = 0.0078125001;  // represents the weight decay while the op is expanded

std::string gate_name(size_t k) { return str("gate", k); }
std::string limit_name(size_t k) { return str("limit", k); }
void add_largest(Tensor of) {
  of.builder()->graph.add_output(kLargest, "largest", abs(convert(of, DType::f32)).id());
}
// Whether every gate of a body is within its limit; empty without gates.
Tensor is_made(const std::shared_ptr<Builder>& builder, size_t gates) {
  Tensor within;
  for (size_t k = 0; k < gates; ++k) {
    const Tensor gate(builder, builder->graph.find_input(gate_name(k))),
        limit(builder, builder->graph.find_input(limit_name(k)));
    const Tensor value = gate.dtype() == DType::f32 ? gate : convert(gate, DType::f32);
    const Tensor one =  // as is_within()
        apply1(ops::and_, {value <= limit, value >= std::numeric_limits<float>::lowest()});
    within = within.defined() ? apply1(ops::and_, {within, one}) : one;
  }
  return within;
}
}  // namespace

Graph multi_tensor_body(OpId op, const Attrs& attrs, DType dtype) {
  const Op& row = op_row(op);
  LS_CHECK(row.expand, "row ", op, " has no expansion");
  Attrs marked = attrs;
  marked.set("weight_decay", kDecayMark);
  auto builder = std::make_shared<Builder>();
  const auto& sample = row.samples.at(0).in;
  std::vector<Tensor> in;
  for (size_t i = 0; i < sample.size(); ++i) {
    bool scalar = sample[i].shape.empty();
    in.emplace_back(builder, builder->graph.add_input(scalar ? InputKind::scalar : InputKind::value,
                                                      str(scalar ? "scalar" : "tensor", i), dtype,
                                                      scalar ? Shape{} : Shape{kUpdateElements}));
  }
  ValueId decay = builder->graph.add_input(InputKind::value, "weight_decay", DType::f32, {});
  auto out = row.expand({in, marked, builder});
  for (size_t i = 0; i < out.size(); ++i)
    builder->graph.add_output(OutputKind::value, str("out", i), out[i].id());

  // Replaces each constant that equals the mark by the per-tensor scalar.
  const Graph& old = builder->graph;
  Rewriter rewriter(old);
  int marks = 0;
  for (const Node& node : old.nodes) {
    if (op_row(node.op).kind == OpKind::creation && node.attrs.has("value") &&
        node.attrs.number("value") == kDecayMark) {
      const Value& made = old[node.outputs[0]];
      ++marks;
      ValueId value = rewriter.at(decay);
      if (made.dtype != DType::f32)
        value =
            rewriter.graph().append(ops::convert, {value}, {{"dtype", made.dtype}}, {{made.dtype, {}}})[0];
      if (!made.shape.empty())
        value = rewriter.graph().append(ops::broadcast, {value}, {{"shape", made.shape}, {"dims", Shape{}}},
                                        {{made.dtype, made.shape}})[0];
      rewriter.map(node.outputs[0], value);
    } else {
      rewriter.copy(node);
    }
  }
  LS_CHECK(marks > 0, "the expansion of ", op, " does not hold weight_decay as a constant");
  return prune(rewriter.finish());
}

Graph gated_body(Graph body, const std::vector<int>& replaced, const std::vector<DType>& gates) {
  auto builder = std::make_shared<Builder>();
  builder->graph = std::move(body);
  Graph& graph = builder->graph;
  std::vector<ValueId> elements;
  for (const auto& input : graph.inputs)
    if (!graph[input.value].shape.empty()) elements.push_back(input.value);
  for (size_t k = 0; k < gates.size(); ++k) {
    graph.add_input(InputKind::scalar, gate_name(k), gates[k], {});
    graph.add_input(InputKind::scalar, limit_name(k), DType::f32, {});
  }
  const Tensor within = is_made(builder, gates.size());
  for (size_t o = 0; within.defined() && o < graph.outputs.size(); ++o) {
    if (replaced.at(o) == kReplacesNothing) continue;
    const ValueId old = elements.at(replaced.at(o));
    const ValueId made = graph.outputs[o].value;
    const Shape shape = graph[made].shape;
    graph.outputs[o].value =
        where(broadcast_to(within, shape), Tensor(builder, made), Tensor(builder, old)).id();
  }
  return graph;
}

Graph body_by_scale(const Graph& body, DType dtype, size_t gates) {
  auto builder = std::make_shared<Builder>();
  builder->graph = body;
  Graph& graph = builder->graph;
  auto scalar_of_tensor = [&](const char* label) {
    return Tensor(builder, graph.add_input(InputKind::state, label, DType::f32, {}));
  };
  Tensor scale = scalar_of_tensor("scale");
  if (gates > 0) scale = where(is_made(builder, gates), scale, scalar_of_tensor("scale_before"));
  const Tensor made(builder, graph.outputs[0].value);
  const Tensor half = made.dtype() == DType::bf16 ? made : convert(made, DType::bf16);
  graph.add_output(OutputKind::value, "copy", rounded_by_scale(half, scale, dtype).id());
  add_largest(half);
  return graph;
}

Graph body_with_largest(const Graph& body) {
  auto builder = std::make_shared<Builder>();
  builder->graph = body;
  add_largest(Tensor(builder, body.outputs.back().value));
  return builder->graph;
}

Graph body_of_halves(const Graph& body, const std::vector<int>& inputs) {
  if (inputs.empty()) return body;
  Rewriter rewriter(body);
  Graph& made = rewriter.graph();
  for (int input : inputs) {
    const ValueId old = body.inputs.at(input).value, half = rewriter.at(old);
    made[half].dtype = DType::bf16;
    const Shape shape = made[half].shape;
    rewriter.map(old, made.append(ops::convert, {half}, {{"dtype", DType::f32}}, {{DType::f32, shape}})[0]);
  }
  for (const Node& node : body.nodes) rewriter.copy(node);
  return rewriter.finish();
}

}  // namespace lockstep::compiler
