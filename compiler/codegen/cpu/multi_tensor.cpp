// Multi-tensor kernels: one launch runs a pointwise body over every tensor of a table, in chunks shared by
// the threads.
#include "compiler/codegen/cpu/dialect.h"
#include "compiler/codegen/kernel.h"
#include "compiler/codegen/loops/kernel_body.h"
#include "compiler/codegen/statements/statements.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace lockstep::compiler {

using codegen::Given;
using codegen::TensorBody;
using codegen::TensorInput;

namespace {
constexpr int64_t kChunk = 16384;  // elements per unit of work

bool is_largest(const Graph& body, const codegen::Store& store) {
  return body.outputs[store.output].kind == kLargest;
}
// Non-negative floats sort like their words as integers, with NaN last, so an integer maximum finds the
// largest.
void find_largest(codegen::Text& text, const codegen::Store& store, bool tail) {
  const std::string most = str("most", store.output), lane = tail ? "[l]" : "",
                    kept = str(most, lane, " = words", lane, " > ", most, lane, " ? words", lane, " : ", most,
                               lane);
  text.line(str("{ const vi words = (vi)t", store.item, "; ", tail ? "for (int l = 0; l < m; ++l) " : "",
                kept, "; }"));
}
// Combines the maxima of chunks with an atomic, because several threads work on one tensor.
void keep_largest(codegen::Text& text, const std::string& output) {
  text.line(str("i32 own", output, " = 0; for (int l = 0; l < LS_W; ++l) own", output, " = most", output,
                "[l] > own", output, " ? most", output, "[l] : own", output, ";"));
  text.line(str("i32 held", output, " = __atomic_load_n((i32*)o", output, ", __ATOMIC_RELAXED);"));
  text.line(str("while (held", output, " < own", output, " && !__atomic_compare_exchange_n((i32*)o", output,
                ", &held", output, ", own", output, ", 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}"));
}
std::string pointer_of(const TensorBody& made, const TensorInput& input) {
  switch (input.given) {
    case Given::per_element:
      return str("table[i * ", made.columns(), " + ", input.number, "]");
    case Given::own:
      return str("table[i * ", made.columns(), " + ", made.first_own() + input.number, "]");
    case Given::shared:
      return str("scalars[", input.number, "]");
    case Given::per_tensor:
      break;
  }
  return str("(const void*)(per_tensor + i * ", made.count(Given::per_tensor), " + ", input.number, ")");
}
// The loop over a chunk's whole vectors, or with `tail` over what is left.
void write_elements(codegen::Text& text, const Graph& body, const codegen::Plan& plan,
                    const codegen::Statements& items, const std::vector<int>& needed, bool tail) {
  text.open(tail ? "for (i64 c = whole > lo ? whole : lo; c < hi; c += LS_W) {"
                 : "for (i64 c = lo; c < whole; c += LS_W) {");
  if (tail) text.line("const i64 m = hi - c < LS_W ? hi - c : LS_W;");
  for (int id : needed)
    if (plan.items[id].varies) items.write(text, id, "c", tail);
  for (const auto& store : plan.stores) {
    if (is_largest(body, store)) {
      find_largest(text, store, tail);
      continue;
    }
    DType dtype = body[body.outputs[store.output].value].dtype;
    text.line(str(tail ? "ls_store_n_" : "ls_store_", name(dtype), "(o", store.output, ", c, t", store.item,
                  tail ? ", m);" : ");"));
  }
  text.close();
}
}  // namespace

KernelSource generate_multi_tensor(const Graph& body) {
  const TensorBody made = codegen::tensor_body(body, "m_");
  const Graph& own = made.graph;
  const codegen::Plan& plan = made.plan;

  KernelSource out;
  out.multi_tensor = true;
  out.name = made.name;
  codegen::Text text;
  const codegen::Statements items(own, plan.items, *plan.indexer, cpu::dialect());
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
  for (size_t k = 0; k < made.inputs.size(); ++k)
    text.line(str("const void* const a", k, " = ", pointer_of(made, made.inputs[k]), ";"));
  for (size_t k = 0; k < own.outputs.size(); ++k)
    text.line(str("void* const o", k, " = table[i * ", made.columns(), " + ",
                  made.first_output() + static_cast<int>(k), "];"));
  for (const auto& store : plan.stores)
    if (is_largest(own, store)) text.line(str("vi most", store.output, " = {};"));
  std::vector<int> roots;
  for (const auto& store : plan.stores) roots.push_back(store.item);
  auto needed = items.closure(roots);
  for (int id : needed)
    if (!plan.items[id].varies) items.write(text, id);
  for (bool tail : {false, true}) write_elements(text, own, plan, items, needed, tail);
  for (const auto& store : plan.stores)
    if (is_largest(own, store)) keep_largest(text, str(store.output));
  text.close();
  text.line("__builtin_free(first);");
  text.close();
  out.text = "extern \"C\" void " + out.name +
             "(void* const* table, const i64* numels, const float* per_tensor, i64 tensors, void* const* "
             "scalars, int threads)\n" +
             text.take();
  if (logs::enabled("source")) logs::topic("source", made.described + out.text);
  return out;
}

}  // namespace lockstep::compiler
