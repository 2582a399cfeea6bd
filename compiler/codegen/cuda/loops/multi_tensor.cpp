// Multi-tensor kernels: one launch runs a pointwise body over the tensors of a table, which is passed with
// the launch.
#include "compiler/codegen/cuda/loops/multi_tensor.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/codegen/cuda/loops/chunk_statements.h"
#include "compiler/codegen/cuda/loops/kernels.h"
#include "compiler/codegen/loops/kernel_body.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace lockstep::compiler::cuda {

using codegen::Given;
using codegen::TensorBody;
using codegen::TensorInput;

namespace {

TableLayout layout_of(const TensorBody& body) {
  TableLayout layout;
  layout.columns = body.columns();
  layout.per_tensor = body.count(Given::per_tensor);
  layout.shared = body.count(Given::shared);
  while (layout.bytes() <= kTableBytes) ++layout.capacity;
  --layout.capacity;
  LS_CHECK(layout.capacity > 0, "a multi-tensor body with ", layout.columns,
           " tensors does not fit a table of ", kTableBytes, " bytes");
  return layout;
}

std::string table_type(const std::string& kernel, const TableLayout& layout) {
  codegen::Text text;
  text.open(str("struct ", kernel, "_table {"));
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
  std::string out = text.take();
  return out.replace(out.rfind('}'), 1,
                     str("}; static_assert(sizeof(", kernel, "_table) == ", layout.bytes(), ");"));
}

class TensorKernel {
 public:
  TensorKernel(const TensorBody& body, const TableLayout& layout) : body_(body), layout_(layout) {
    for (const auto& store : body.plan.stores) roots_.push_back(store.item);
  }

  std::string write() {
    text_.open(str("extern \"C\" __global__ void __launch_bounds__(", kTensorThreads, ") ", body_.name,
                   "(const __grid_constant__ ", body_.name, "_table p) {"));
    find_chunk();
    const int width = bind();
    const ChunkStatements statements(body_.graph, body_.plan.items, *body_.plan.indexer, dialect_, width);
    for (int id : statements.closure(roots_))
      if (!statements.item(id).varies) statements.row(text_, id);
    for (const auto& store : body_.plan.stores)
      if (is_largest(store.output)) text_.line(str("u32 most", store.output, " = 0;"));
    loop(width, "lo", "whole");
    loop(1, "whole", "hi");
    for (const auto& store : body_.plan.stores)
      if (is_largest(store.output)) keep_largest(str(store.output));
    text_.close();
    return text_.take();
  }

 private:
  bool is_largest(size_t output) const { return body_.graph.outputs[output].kind == kLargest; }
  // Non-negative floats sort like their words as integers, with NaN last, so an integer maximum finds the
  // largest.
  void keep_largest(const std::string& output) {
    text_.line(str("for (int d = 16; d > 0; d >>= 1) most", output, " = max(most", output,
                   ", __shfl_xor_sync(0xffffffffu, most", output, ", d));"));
    text_.line(str("if (threadIdx.x % 32 == 0) atomicMax((u32*)o", output, ", most", output, ");"));
  }
  DType dtype(const codegen::Store& store) const {
    return body_.graph[body_.graph.outputs[store.output].value].dtype;
  }

  // Finds the tensor and the chunk of this block.
  void find_chunk() {
    text_.line("int i = 0;");
    text_.line(
        "for (int end = p.count[0]; end - i > 1;) { const int middle = (i + end) / 2; if (p.first[middle] <= "
        "blockIdx.x) i = middle; else "
        "end = middle; }");
    text_.line(str("const i64 lo = (i64)(blockIdx.x - p.first[i]) * ", kTensorChunk,
                   ", n = p.sizes[i], hi = lo + ", kTensorChunk, " < n ? lo + ", kTensorChunk, " : n;"));
  }

  std::string pointer(const TensorInput& input) const {
    switch (input.given) {
      case Given::per_element:
        return str("p.pointers[i * ", layout_.columns, " + ", input.number, "]");
      case Given::own:
        return str("p.pointers[i * ", layout_.columns, " + ", body_.first_own() + input.number, "]");
      case Given::shared:
        return str("p.shared[", input.number, "]");
      case Given::per_tensor:
        break;
    }
    return str("(const void*)&p.scalars[i * ", layout_.per_tensor, " + ", input.number, "]");
  }

  // Names the arguments, and `whole`: the end of the elements that are processed in chunks. Returns the width
  // of a chunk.
  int bind() {
    const Graph& graph = body_.graph;
    int widest = 1;
    std::string any;
    for (size_t k = 0; k < body_.inputs.size(); ++k) {
      text_.line(str("const void* const a", k, " = ", pointer(body_.inputs[k]), ";"));
      if (body_.inputs[k].given != Given::per_element) continue;
      any += str("(u64)a", k, " | ");
      widest = std::max(widest, static_cast<int>(size_of(graph[graph.inputs[k].value].dtype)));
    }
    for (size_t k = 0; k < graph.outputs.size(); ++k) {
      text_.line(str("void* const o", k, " = p.pointers[i * ", layout_.columns, " + ",
                     body_.first_output() + static_cast<int>(k), "];"));
      if (!is_largest(k)) any += str("(u64)o", k, " | ");
    }
    const int width = std::clamp(16 / widest, 2, 8);
    text_.line(str("const bool aligned = ((", any, "0) & 15) == 0;"));
    text_.line(str("const i64 whole = aligned ? lo + (hi - lo) / ", width, " * ", width, " : lo;"));
    return width;
  }

  // The loop over chunks of `width` elements in [from, to), and what it does to each.
  void loop(int width, const char* from, const char* to) {
    const ChunkStatements statements(body_.graph, body_.plan.items, *body_.plan.indexer, dialect_, width);
    std::vector<int> varying;
    for (int id : statements.closure(roots_))
      if (statements.item(id).varies) varying.push_back(id);
    text_.open(str("for (i64 c0 = ", from, " + threadIdx.x * ", width, "; c0 < ", to,
                   "; c0 += ", kTensorThreads * width, ") {"));
    statements.before_elements(text_, varying);
    for (const auto& store : body_.plan.stores) {
      if (is_largest(store.output)) continue;
      std::string type = str("ls_raw<", size_of(dtype(store)), ", ", width, ">");
      text_.line(str(type, " y", store.output, " = ", type, "::zeros();"));
    }
    text_.open(str("LS_EACH(", width, ") {"));
    text_.line("const i64 c = c0 + j; (void)c;");
    for (int id : varying) statements.element(text_, id);
    for (const auto& store : body_.plan.stores)
      if (is_largest(store.output))
        text_.line(
            str("most", store.output, " = max(most", store.output, ", __float_as_uint(t", store.item, "));"));
      else
        text_.line(str("y", store.output, ".set(j, ls_into_", name(dtype(store)), "(t", store.item, "));"));
    text_.close();
    for (const auto& store : body_.plan.stores)
      if (!is_largest(store.output)) text_.line(str("y", store.output, ".store(o", store.output, ", c0);"));
    text_.close();
  }

  const TensorBody& body_;
  const TableLayout& layout_;
  const CudaDialect dialect_{"long"};
  std::vector<int> roots_;
  codegen::Text text_;
};

}  // namespace

KernelSource generate_multi_tensor(const Graph& body) {
  const TensorBody made = codegen::tensor_body(body, "d_");
  const TableLayout layout = layout_of(made);
  KernelSource out;
  out.multi_tensor = true;
  out.name = made.name;
  out.text = table_type(made.name, layout) + TensorKernel(made, layout).write();
  out.launch = nlohmann::json{{"capacity", layout.capacity},     {"columns", layout.columns},
                              {"per_tensor", layout.per_tensor}, {"shared", layout.shared},
                              {"chunk", kTensorChunk},           {"block", kTensorThreads}}
                   .dump();
  if (logs::enabled("source")) logs::topic("source", made.described + out.text);
  return out;
}

}  // namespace lockstep::compiler::cuda
