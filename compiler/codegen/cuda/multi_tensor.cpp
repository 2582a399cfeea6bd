// Multi-tensor kernels: one launch runs a pointwise body over the tensors of a table that travels with the
// launch.
#include "compiler/codegen/cuda/multi_tensor.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/codegen/cuda/kernels.h"
#include "compiler/codegen/cuda/statements.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/ir/print.h"
#include "core/ir/walk.h"

namespace lockstep::cuda {

namespace {
enum class Kind { element, shared, tensor };
Kind kind_of(const Graph& body, const GraphInput& input) {
  if (body[input.value].shape.size() == 1) return Kind::element;
  LS_CHECK(body[input.value].shape.empty(), "multi-tensor input \"", input.name, "\" is ",
           shape_text(body[input.value].dtype, body[input.value].shape));
  return input.kind == InputKind::scalar ? Kind::shared : Kind::tensor;
}

// The loop over chunks of `width` elements in [from, to), and what it does to each.
void loop(cpu::Text& text, const Graph& body, const cpu::Plan& plan, int width, const char* from,
          const char* to) {
  Statements statements(body, plan.items, *plan.indexer, "long", width);
  std::vector<int> roots, varying;
  for (const auto& store : plan.stores) roots.push_back(store.item);
  for (int id : statements.closure(roots))
    if (plan.items[id].varies) varying.push_back(id);
  text.open(str("for (i64 c0 = ", from, " + threadIdx.x * ", width, "; c0 < ", to,
                "; c0 += ", kTensorThreads * width, ") {"));
  statements.before_elements(text, varying);
  auto dtype = [&](const cpu::Store& store) { return body[body.outputs[store.output].value].dtype; };
  for (const auto& store : plan.stores) {
    std::string type = str("ls_raw<", size_of(dtype(store)), ", ", width, ">");
    text.line(str(type, " y", store.output, " = ", type, "::zeros();"));
  }
  text.open(str("LS_EACH(", width, ") {"));
  text.line("const i64 c = c0 + j; (void)c;");
  for (int id : varying) statements.element(text, id);
  for (const auto& store : plan.stores)
    text.line(str("y", store.output, ".set(j, ls_into_", name(dtype(store)), "(t", store.item, "));"));
  text.close();
  for (const auto& store : plan.stores) text.line(str("y", store.output, ".store(o", store.output, ", c0);"));
  text.close();
}
}  // namespace

KernelSource generate_multi_tensor(const Graph& body) {
  Graph own = prune(body);
  own.mesh = Mesh{{}, {}};
  for (auto& value : own.values) value.layout = {};
  std::vector<Kind> kinds;
  for (auto& input : own.inputs) {
    kinds.push_back(kind_of(own, input));
    input.name.clear();
  }
  for (auto& output : own.outputs) output.name.clear();
  const std::string described = print(own, {.source_lines = false});
  auto made = cpu::plan_body(own);
  LS_CHECK(made.plan && made.plan->rows == 1 && made.plan->reductions.empty(),
           "a multi-tensor body is pointwise: ", made.reason, "\n", described);
  const cpu::Plan& plan = *made.plan;

  TableLayout layout;
  auto count = [&](Kind kind) { return static_cast<int>(std::count(kinds.begin(), kinds.end(), kind)); };
  const int elements = count(Kind::element);
  layout.columns = elements + static_cast<int>(own.outputs.size());
  layout.per_tensor = count(Kind::tensor);
  layout.shared = count(Kind::shared);
  while (layout.bytes() <= kTableBytes) ++layout.capacity;
  --layout.capacity;
  LS_CHECK(layout.capacity > 0, "a multi-tensor body with ", layout.columns,
           " tensors does not fit a table of ", kTableBytes, " bytes");

  KernelSource out;
  out.multi_tensor = true;
  out.name = "d_" + hash_hex(described);
  cpu::Text text;
  text.open(str("struct ", out.name, "_table {"));
  auto field = [&](const char* type, const char* field_name, int size) {
    if (size > 0) text.line(str(type, " ", field_name, "[", size, "];"));
  };
  field("void*", "shared", layout.shared);
  field("void*", "pointers", layout.columns * layout.capacity);
  field("i64", "sizes", layout.capacity);
  field("float", "scalars", layout.per_tensor * layout.capacity);
  field("u32", "first", layout.capacity + 1);
  field("i32", "count", 1);
  text.close();
  std::string head = text.take();
  head.replace(head.rfind('}'), 1,
               str("}; static_assert(sizeof(", out.name, "_table) == ", layout.bytes(), ");"));

  text.open(str("extern \"C\" __global__ void __launch_bounds__(", kTensorThreads, ") ", out.name,
                "(const __grid_constant__ ", out.name, "_table p) {"));
  text.line("int i = 0;");
  text.line(
      "for (int end = p.count[0]; end - i > 1;) { const int middle = (i + end) / 2; if (p.first[middle] <= "
      "blockIdx.x) i = middle; else "
      "end = middle; }");
  text.line(str("const i64 lo = (i64)(blockIdx.x - p.first[i]) * ", kTensorChunk,
                ", n = p.sizes[i], hi = lo + ", kTensorChunk, " < n ? lo + ", kTensorChunk, " : n;"));
  int element = 0, shared = 0, tensor = 0, widest = 1;
  std::string any;
  for (size_t k = 0; k < kinds.size(); ++k) {
    const std::string from =
        kinds[k] == Kind::element ? str("p.pointers[i * ", layout.columns, " + ", element++, "]")
        : kinds[k] == Kind::shared
            ? str("p.shared[", shared++, "]")
            : str("(const void*)&p.scalars[i * ", layout.per_tensor, " + ", tensor++, "]");
    text.line(str("const void* const a", k, " = ", from, ";"));
    if (kinds[k] != Kind::element) continue;
    any += str("(u64)a", k, " | ");
    widest = std::max(widest, static_cast<int>(size_of(own[own.inputs[k].value].dtype)));
  }
  for (size_t k = 0; k < own.outputs.size(); ++k) {
    text.line(str("void* const o", k, " = p.pointers[i * ", layout.columns, " + ",
                  elements + static_cast<int>(k), "];"));
    any += str("(u64)o", k, " | ");
  }
  const int width = std::clamp(16 / widest, 2, 8);
  text.line(str("const bool aligned = ((", any, "0) & 15) == 0;"));
  text.line(str("const i64 whole = aligned ? lo + (hi - lo) / ", width, " * ", width, " : lo;"));
  Statements statements(own, plan.items, *plan.indexer, "long", width);
  std::vector<int> roots;
  for (const auto& store : plan.stores) roots.push_back(store.item);
  for (int id : statements.closure(roots))
    if (!plan.items[id].varies) statements.row(text, id);
  loop(text, own, plan, width, "lo", "whole");
  loop(text, own, plan, 1, "whole", "hi");
  text.close();
  out.text = head + text.take();
  out.launch = nlohmann::json{{"capacity", layout.capacity},     {"columns", layout.columns},
                              {"per_tensor", layout.per_tensor}, {"shared", layout.shared},
                              {"chunk", kTensorChunk},           {"block", kTensorThreads}}
                   .dump();
  if (logs::enabled("source")) logs::topic("source", described + out.text);
  return out;
}

}  // namespace lockstep::cuda
