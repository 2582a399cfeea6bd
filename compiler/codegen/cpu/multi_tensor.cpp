// Multi-tensor kernels: one launch runs a pointwise body over every tensor of a table, in chunks shared by
// the threads.
#include <algorithm>

#include "compiler/codegen/cpu/prelude.h"
#include "compiler/codegen/cpu/text.h"
#include "compiler/codegen/kernel.h"
#include "compiler/codegen/loops/plan.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/ir/print.h"
#include "core/ir/walk.h"
#include "core/ops/functions.h"
#include "core/ops/op.h"

namespace lockstep {

namespace {
constexpr int64_t kChunk = 16384;            // elements of a unit of work
constexpr int64_t kSampleSize = 1 << 20;     // elements of the body's tensors; any size will do
constexpr double kDecayMark = 0.0078125001;  // stands for the weight decay while the row expands

const char* kind_of(const Graph& body, const GraphInput& input) {
  if (body[input.value].shape.size() == 1) return "element";
  LS_CHECK(body[input.value].shape.empty(), "multi-tensor input \"", input.name, "\" is ",
           shape_text(body[input.value].dtype, body[input.value].shape));
  return input.kind == InputKind::scalar ? "shared" : "tensor";
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
                                                      scalar ? Shape{} : Shape{kSampleSize}));
  }
  ValueId decay = builder->graph.add_input(InputKind::value, "weight_decay", DType::f32, {});
  auto out = row.expand({in, marked, builder});
  for (size_t i = 0; i < out.size(); ++i)
    builder->graph.add_output(OutputKind::value, str("out", i), out[i].id());

  // Wherever the mark stands as a constant, the per-tensor scalar takes its place.
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

Graph gated_body(Graph body, const std::vector<DType>& gates) {
  auto builder = std::make_shared<Builder>();
  builder->graph = std::move(body);
  Graph& graph = builder->graph;
  std::vector<ValueId> elements;
  for (const auto& input : graph.inputs)
    if (!graph[input.value].shape.empty()) elements.push_back(input.value);
  auto scalar_of = [&](const std::string& label, DType dtype) {
    return Tensor(builder, graph.add_input(InputKind::scalar, label, dtype, {}));
  };
  Tensor within;
  for (size_t k = 0; k < gates.size(); ++k) {
    Tensor gate = scalar_of(str("gate", k), gates[k]), limit = scalar_of(str("limit", k), DType::f32);
    Tensor one = less_equal(abs(gates[k] == DType::f32 ? gate : convert(gate, DType::f32)), limit);
    within = within.defined() ? apply1(ops::and_, {within, one}) : one;
  }
  for (size_t o = 0; within.defined() && o < graph.outputs.size(); ++o) {
    const ValueId old = elements.at(o == 0 ? 0 : o + 1);
    const ValueId made = graph.outputs[o].value;
    const Shape shape = graph[made].shape;
    graph.outputs[o].value =
        where(broadcast_to(within, shape), Tensor(builder, made), Tensor(builder, old)).id();
  }
  return graph;
}

KernelSource generate_multi_tensor(const Graph& body) {
  Graph own = prune(body);
  own.mesh = Mesh{{}, {}};
  for (auto& value : own.values) value.layout = {};
  std::vector<std::string> kinds;
  for (auto& input : own.inputs) {
    kinds.push_back(kind_of(own, input));
    input.name.clear();
  }
  for (auto& output : own.outputs) output.name.clear();
  std::string described = print(own, {.source_lines = false});
  auto made = cpu::plan_body(own);
  LS_CHECK(made.plan && made.plan->rows == 1 && made.plan->reductions.empty(),
           "a multi-tensor body is pointwise: ", made.reason, "\n", described);
  const cpu::Plan& plan = *made.plan;

  KernelSource out;
  out.multi_tensor = true;
  out.name = "m_" + hash_hex(described);
  cpu::Text text;
  cpu::ItemText items(own, plan.items, *plan.indexer);
  const auto elements = static_cast<int64_t>(std::count(kinds.begin(), kinds.end(), "element"));
  const auto per_tensor = static_cast<int64_t>(std::count(kinds.begin(), kinds.end(), "tensor"));
  const int64_t columns = elements + static_cast<int64_t>(own.outputs.size());
  text.open("{");
  text.line("i64* const first = (i64*)__builtin_malloc((u64)(tensors + 1) * sizeof(i64));");
  text.line("first[0] = 0;");
  text.line(str("for (i64 i = 0; i < tensors; ++i) first[i + 1] = first[i] + (numels[i] + ", kChunk - 1,
                ") / ", kChunk, ";"));
  text.line(
      "#pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1 && first[tensors] > 1)");
  text.open("for (i64 chunk = 0; chunk < first[tensors]; ++chunk) {");
  text.line("i64 i = 0;");
  text.line(
      "for (i64 end = tensors; end - i > 1;) { const i64 middle = (i + end) / 2; if (first[middle] <= chunk) "
      "i = middle; else end = "
      "middle; }");
  text.line(str("const i64 lo = (chunk - first[i]) * ", kChunk, ", hi = lo + ", kChunk,
                " < numels[i] ? lo + ", kChunk, " : numels[i], whole = hi / 16 * 16;"));
  int64_t element = 0, shared = 0, tensor = 0;
  for (size_t k = 0; k < kinds.size(); ++k) {
    std::string from = kinds[k] == "element" ? str("table[i * ", columns, " + ", element++, "]")
                       : kinds[k] == "shared"
                           ? str("scalars[", shared++, "]")
                           : str("(const void*)(per_tensor + i * ", per_tensor, " + ", tensor++, ")");
    text.line(str("const void* const a", k, " = ", from, ";"));
  }
  for (size_t k = 0; k < own.outputs.size(); ++k)
    text.line(
        str("void* const o", k, " = table[i * ", columns, " + ", elements + static_cast<int64_t>(k), "];"));
  std::vector<int> roots;
  for (const auto& store : plan.stores) roots.push_back(store.item);
  auto needed = items.closure(roots, {});
  for (int id : needed)
    if (!plan.items[id].varies) items.write(text, id, false);
  for (bool tail : {false, true}) {
    text.open(tail ? "for (i64 c = whole > lo ? whole : lo; c < hi; c += LS_W) {"
                   : "for (i64 c = lo; c < whole; c += LS_W) {");
    if (tail) text.line("const i64 m = hi - c < LS_W ? hi - c : LS_W;");
    for (int id : needed)
      if (plan.items[id].varies) items.write(text, id, tail);
    for (const auto& store : plan.stores) {
      DType dtype = own[own.outputs[store.output].value].dtype;
      text.line(str(tail ? "ls_store_n_" : "ls_store_", name(dtype), "(o", store.output, ", c, t", store.item,
                    tail ? ", m);" : ");"));
    }
    text.close();
  }
  text.close();
  text.line("__builtin_free(first);");
  text.close();
  out.text = "extern \"C\" void " + out.name +
             "(void* const* table, const i64* numels, const float* per_tensor, i64 tensors, void* const* "
             "scalars, int threads)\n" +
             text.take();
  if (logs::enabled("source")) logs::topic("source", described + out.text);
  return out;
}

}  // namespace lockstep
