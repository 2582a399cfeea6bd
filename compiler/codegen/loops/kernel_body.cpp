// Normal forms of bodies.
#include "compiler/codegen/loops/kernel_body.h"

#include <algorithm>
#include <limits>

#include "compiler/codegen/loops/plan_body.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/ir/print.h"
#include "core/ir/walk.h"

namespace lockstep::compiler::codegen {

namespace {
constexpr int64_t kBeginStep = 16;  // elements; keeps arguments aligned for vectors

// Moves each input's begin to the first element that the kernel reads, in whole steps; its plan then counts
// from there.
std::vector<int64_t> move_begins(const Graph& graph, Plan& plan) {
  const bool parts = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                 [](const Node& node) { return node.op == ops::slice; });
  if (!parts) return {};
  std::vector<int64_t> begins(graph.inputs.size(), std::numeric_limits<int64_t>::max());
  auto each_load = [&](auto&& visit) {
    for (Item& item : plan.items)
      if (item.kind == ItemKind::load) visit(item, *plan.indexer);
    for (Item& item : plan.combine_items)
      if (item.kind == ItemKind::load) visit(item, *plan.combine_indexer);
  };
  each_load([&](const Item& item, const Indexer& indexer) {
    begins[item.input] = std::min(begins[item.input], indexer.low(item.index));
  });
  for (int64_t& begin : begins)
    begin = begin == std::numeric_limits<int64_t>::max() ? 0 : begin / kBeginStep * kBeginStep;
  each_load(
      [&](Item& item, Indexer& indexer) { item.index = indexer.shift(item.index, -begins[item.input]); });
  return begins;
}

void describe(KernelBody& out, std::string_view prefix) {
  out.graph.mesh = Mesh{{}, {}};
  for (auto& value : out.graph.values) value.layout = {};
  for (auto& input : out.graph.inputs) input.name.clear();
  for (auto& output : out.graph.outputs) output.name.clear();
  out.described = print(out.graph, {.source_lines = false});
  out.name = str(prefix, hash_hex(out.described));
}

Given given(const Graph& body, const GraphInput& input) {
  const Value& value = body[input.value];
  if (value.shape.size() == 1) return Given::per_element;
  LS_CHECK(value.shape.empty(), "multi-tensor input \"", input.name, "\" is ",
           shape_text(value.dtype, value.shape));
  if (input.kind == InputKind::scalar) return Given::shared;
  return input.kind == InputKind::state ? Given::own : Given::per_tensor;
}
}  // namespace

KernelBody kernel_body(const Graph& body, std::string_view prefix) {
  KernelBody out{prune(body), {}, {}, {}, {}};
  for (auto& input : out.graph.inputs) input.kind = InputKind::value;
  for (auto& output : out.graph.outputs) output.kind = OutputKind::value;
  describe(out, prefix);
  PlanResult made = plan_body(out.graph);
  LS_CHECK(made.plan, "no kernel for this body (", made.reason, "):\n", out.described);
  out.plan = std::move(*made.plan);
  out.begins = move_begins(out.graph, out.plan);
  return out;
}

TensorBody tensor_body(const Graph& body, std::string_view prefix) {
  TensorBody out{{prune(body), {}, {}, {}, {}}, {}};
  for (const auto& input : out.graph.inputs) {
    const Given how = given(out.graph, input);
    out.inputs.push_back({how, out.count(how)});
  }
  describe(out, prefix);
  PlanResult made = plan_body(out.graph);
  LS_CHECK(made.plan && made.plan->rows == 1 && made.plan->reductions.empty(),
           "a multi-tensor body is pointwise: ", made.reason, "\n", out.described);
  out.plan = std::move(*made.plan);
  return out;
}

int TensorBody::count(Given given) const {
  return static_cast<int>(std::count_if(inputs.begin(), inputs.end(),
                                        [&](const TensorInput& one) { return one.given == given; }));
}

}  // namespace lockstep::compiler::codegen
