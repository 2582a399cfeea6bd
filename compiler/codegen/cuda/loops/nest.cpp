// Kernels of a plan: which functions it needs, pointwise kernels over chunks, and the helpers of all kernels.
#include "compiler/codegen/cuda/loops/nest.h"

#include <limits>

#include "compiler/codegen/cuda/loops/form.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

using codegen::Level;
using codegen::Plan;
using codegen::Reduction;
using codegen::Store;

std::string index_type(const Graph& body, const Plan& plan) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - (1 << 20);
  int64_t most = plan.rows * std::max<int64_t>(1, plan.columns);
  for (const Value& value : body.values) most = std::max(most, numel(value.shape));
  auto see = [&](const std::vector<codegen::Item>& items, const codegen::Indexer& indexer) {
    for (const auto& item : items) {
      most = std::max(most, indexer.extent(item.index));
      for (const auto& guard : item.guards)
        most = std::max({most, indexer.extent(guard.at), guard.hi, -guard.lo});
    }
  };
  see(plan.items, *plan.indexer);
  see(plan.combine_items, *plan.combine_indexer);
  return most <= kMost ? "int" : "long";
}

namespace {
constexpr int kFlatThreads = 256;
constexpr int64_t kBusyThreads = 132 * 2048;  // threads that keep a device busy
constexpr int64_t kMostTurns = 8;
}  // namespace

KernelText Nest::write() {
  out_.aligned.assign(body_.inputs.size() + body_.outputs.size(), 1);
  for (size_t i = 0; i < out_.aligned.size(); ++i)
    out_.aligned[i] = static_cast<int>(size_of(dtype_of_argument(i)));
  const bool writes_rows = std::any_of(plan_.stores.begin(), plan_.stores.end(),
                                       [](const auto& s) { return s.level == Level::row; });
  if (plan_.rows > 0 && (plan_.columns > 0 || plan_.row_reductions || writes_rows)) {
    if (plan_.column_reductions) {
      place_sums();
      // Tiles of columns if a team is a whole block, so that the order of the sums is the same without teams.
      if (!plan_.row_reductions && !writes_rows && form_.whole_warps())
        tile_kernel();
      else
        row_kernel(true);
      combine_kernel();
    } else if (plan_.row_reductions || writes_rows) {
      row_kernel(false);
    } else {
      flat_kernel();
    }
  }
  return std::move(out_);
}

void Nest::open_function(const std::string& name, int64_t grid, int block, int resident, int shared) {
  LS_CHECK(grid > 0 && grid <= std::numeric_limits<int32_t>::max(), "kernel ", name, " needs ", grid,
           " blocks");
  out_.functions.push_back({name, grid, block, shared});
  std::string parameters;
  for (size_t i = 0; i < body_.inputs.size(); ++i) parameters += str("const void* a", i, ", ");
  for (size_t i = 0; i < body_.outputs.size(); ++i) parameters += str("void* o", i, ", ");
  std::vector<std::string> pointers;
  for (size_t i = 0; i < body_.inputs.size(); ++i) pointers.push_back(str("a", i));
  for (size_t i = 0; i < body_.outputs.size(); ++i) pointers.push_back(str("o", i));
  const RunParameter runs = run_parameter(name, pointers, "w", together_);
  if (together_ > 1) text_.line(runs.type);
  text_.open(str("extern \"C\" __global__ void __launch_bounds__(", block,
                 resident > 1 ? str(", ", resident) : "", ") ", name, "(", parameters, "void* w",
                 runs.parameter, ") {"));
  if (together_ > 1) text_.line(runs.moves);
  if (shared > 0) text_.line("extern __shared__ __align__(16) char ls_rows[];");
}

int Nest::before_rounding(const Store& store, DType dtype, int width) const {
  const codegen::Item& item = plan_.items[store.item];
  const bool halves = dtype == DType::bf16 || dtype == DType::f16;
  if (!(halves ? width >= 2 : is_float8(dtype) && width >= 4) || item.kind != codegen::ItemKind::pointwise ||
      item.node->op != ops::convert)
    return -1;
  const codegen::Item& from = plan_.items[item.args[0]];
  return from.varies && from.dtype == DType::f32 ? item.args[0] : -1;
}

std::string Nest::packed(const Store& store, DType dtype, int width) const {
  const auto each = static_cast<int>(4 / size_of(dtype));
  std::vector<std::string> neighbours;
  for (int i = 0; i < each; ++i)
    neighbours.push_back(str("h", store.output, "[", each, " * j", i ? str(" + ", i) : "", "]"));
  return str("LS_EACH(", width / each, ") y", store.output, ".w[j] = ls_pack_", name(dtype), "(",
             join(neighbours, ", "), ");");
}

void Nest::close_function() {
  text_.close();
  out_.text += text_.take();
}

// Loads require that arguments are aligned to whole chunks.
void Nest::note_loads(const ChunkStatements& statements, const std::vector<int>& ids) {
  for (int id : ids)
    if (statements.loads_chunk(id))
      needs_aligned(statements.item(id).input,
                    static_cast<int>(size_of(statements.item(id).dtype)) * statements.width());
}

void Nest::flat_kernel() {
  size_t least = 8;  // bytes of the narrowest element of a whole argument
  for (size_t i = 0; i < out_.aligned.size(); ++i) {
    const ValueId value =
        i < body_.inputs.size() ? body_.inputs[i].value : body_.outputs[i - body_.inputs.size()].value;
    if (numel(body_[value].shape) >= plan_.rows * plan_.columns)
      least = std::min(least, size_of(body_[value].dtype));
  }
  int width = static_cast<int>(std::min<size_t>(8, 16 / least));
  while (plan_.columns % width != 0) width /= 2;
  const int64_t chunks = plan_.columns / width, all = plan_.rows * chunks;
  ChunkStatements statements(body_, plan_.items, *plan_.indexer, dialect_, width);
  std::vector<int> roots;
  for (const Store& store : plan_.stores) roots.push_back(store.item);
  // A thread that computes values of its columns does so for several rows.
  const int64_t turns =
      computes_columns(statements, roots) ? std::clamp<int64_t>(all / kBusyThreads, 1, kMostTurns) : 1;
  const int64_t rows = over(plan_.rows, turns);
  open_function(name_, over(rows * chunks, kFlatThreads), kFlatThreads);
  text_.line(str("const ", number_, " g = (", number_, ")blockIdx.x * ", kFlatThreads, " + threadIdx.x;"));
  text_.line(str("if (g >= ", rows * chunks, ") return;"));
  if (plan_.rows > 1) {
    text_.line(str("const ", number_, turns > 1 ? " r0" : " r", " = (unsigned ", number_, ")g / ", chunks,
                   "u, c0 = (g - ", turns > 1 ? "r0" : "r", " * ", chunks, ") * ", width, ";"));
  } else {
    text_.line(str("const ", number_, " c0 = g * ", width, ";"));
  }
  hoisted_.clear();
  if (turns > 1) {
    text_.line("const int k = 0; (void)k;");
    hoist_columns(statements, roots, 1);
    text_.open("{");
    write_hoisted(statements);
    text_.close();
    text_.line("#pragma unroll 4");
    text_.open(str("for (", number_, " r = r0; r < ", plan_.rows, "; r += ", rows, ") {"));
  } else if (plan_.rows > 1) {
    text_.line("(void)r;");
  }
  roots_here_ = roots;
  computed_ = hoisted_;
  auto ids = statements.closure(roots, hoisted_);
  for (int id : ids)
    if (!statements.item(id).varies) statements.row(text_, id);
  chunk(statements, ids, true, [] {});
  if (turns > 1) text_.close();
  close_function();
  computed_.clear();
  hoisted_.clear();
}

// Places of column sums in the workspace: [row_blocks, columns] each.
void Nest::place_sums() {
  size_t at = 0;
  sums_at_.assign(plan_.reductions.size(), 0);
  for (size_t k = 0; k < plan_.reductions.size(); ++k) {
    if (!reduction(k).column) continue;
    sums_at_[k] = at;
    const size_t bytes = size_of(codegen::accumulator(type_of(reduction(k)))) *
                         static_cast<size_t>(form_.row_blocks * plan_.columns);
    at += (bytes + 255) / 256 * 256;
  }
  out_.workspace = at;
}

std::string Nest::sums(size_t k) const {
  return str("((", type(reduction(k)), "*)((char*)w + ", sums_at_[k], "))");
}

// The items that each stage's loop computes.
std::vector<std::vector<int>> Nest::roots(const ChunkStatements& statements) const {
  const size_t last = plan_.stages - 1;
  std::vector<std::vector<int>> out(plan_.stages);
  for (const Reduction& one : plan_.reductions)
    if (one.column || !takes(statements, one)) out[one.column ? last : one.stage].push_back(one.item);
  for (const Store& store : plan_.stores)
    if (store.level == Level::element) out[last].push_back(store.item);
  return out;
}

KernelText kernel_text(const Graph& body, const Plan& plan, const std::string& name, int64_t together) {
  return Nest(body, plan, name, together).write();
}

RunParameter run_parameter(const std::string& kernel, const std::vector<std::string>& pointers,
                           const std::string& workspace, int64_t together) {
  if (together == 1) return {};
  RunParameter out{str("struct ", kernel, "_runs { long long apart[", pointers.size() + 1, "]; };\n"),
                   str(", const ", kernel, "_runs runs"), ""};
  for (size_t i = 0; i < pointers.size(); ++i)
    out.moves += str(pointers[i], " = (char*)", pointers[i], " + runs.apart[", i, "] * blockIdx.y;\n");
  out.moves +=
      str(workspace, " = (char*)", workspace, " + runs.apart[", pointers.size(), "] * blockIdx.y;\n");
  return out;
}

}  // namespace lockstep::compiler::cuda
