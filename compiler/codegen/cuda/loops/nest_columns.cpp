// Column sums: teams of a block, tiles of columns, and the kernel that combines the blocks.
#include "compiler/codegen/cuda/loops/form.h"
#include "compiler/codegen/cuda/loops/nest.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

using codegen::Level;
using codegen::Plan;
using codegen::Reduction;
using codegen::Store;

namespace {
constexpr int kTileThreads = 256;
constexpr int kTileAhead = 8;              // the most rows that are copied ahead
constexpr int64_t kTileShared = 32 << 10;  // bytes of shared memory for them
}  // namespace

// Teams are added in order; the block's sums are written to the workspace.
void Nest::fold_teams(const std::vector<size_t>& columns, int teams) {
  if (teams > 1) {
    size_t bytes = 0;  // of the widest element of all sums
    for (size_t k : columns) bytes = std::max(bytes, size_of(codegen::accumulator(type_of(reduction(k)))));
    text_.line(str("__shared__ __align__(16) char f[", bytes * (teams * form_.lanes * form_.width), "];"));
  }
  for (size_t k : columns) {
    const Reduction& one = reduction(k);
    const std::string row = str(sums(k), " + (i64)blockIdx.x * ", plan_.columns);
    if (teams == 1) {
      text_.line(unrolled_ ? "#pragma unroll" : "#pragma unroll 1");
      text_.open(str("for (int k = 0; k < ", form_.steps, "; ++k) {"));
      text_.line(str("const i64 q = lane + k * ", form_.lanes, ";"));
      text_.line(str("if (q < ", form_.chunks, ") LS_EACH(", form_.width, ") (", row, ")[q * ", form_.width,
                     " + j] = e", k, "[k][j];"));
      text_.close();
      continue;
    }
    text_.line(str(type(one), " (*const f", k, ")[", form_.lanes * form_.width, "] = (", type(one), " (*)[",
                   form_.lanes * form_.width, "])f;"));
    text_.line("#pragma unroll");
    text_.open(str("for (int k = 0; k < ", form_.steps, "; ++k) {"));
    text_.line("__syncthreads();");
    text_.line(
        str("LS_EACH(", form_.width, ") f", k, "[team][lane * ", form_.width, " + j] = e", k, "[k][j];"));
    text_.line("__syncthreads();");
    text_.line(
        str("const int at = threadIdx.x; const i64 c = (i64)k * ", form_.lanes * form_.width, " + at;"));
    text_.open(str("if (at < ", form_.lanes * form_.width, " && c < ", plan_.columns, ") {"));
    text_.line(str(type(one), " v = f", k, "[0][at];"));
    text_.line(str("for (int t = 1; t < ", teams, "; ++t) v = ", functor(one), "(v, f", k, "[t][at]);"));
    text_.line(str("(", row, ")[c] = v;"));
    text_.close();
    text_.close();
  }
}

void Nest::tile_kernel() {
  const int64_t tiles = over(form_.chunks, kTileThreads);
  const int block = static_cast<int>(over(over(form_.chunks, tiles), 32) * 32);
  ChunkStatements statements(body_, plan_.items, *plan_.indexer, dialect_, form_.width);
  std::vector<int> all = roots(statements)[0];
  staged_.clear();
  staged_bytes_ = 0;
  plan_stage(statements, statements.closure(all), block, 1, kTileAhead, kTileShared);
  if (depth_ < 2 || form_.block_rows < 2 * depth_) staged_.clear(), staged_bytes_ = 0;
  for (const auto& [id, at] : staged_) statements.rename_chunk(id, str("x", id));
  open_function(name_, form_.row_blocks * tiles, block, 1, staged_bytes_);
  text_.line(str("const ", number_, " q = (", number_, ")(blockIdx.x % ", tiles, ") * ", block,
                 " + threadIdx.x, b = blockIdx.x / ", tiles, ";"));
  text_.line(str("if (q >= ", form_.chunks, ") return;"));
  text_.line(str("const ", number_, " c0 = q * ", form_.width, ", from = b * ", form_.block_rows,
                 ", to = from + ", form_.block_rows, " < ", plan_.rows, " ? from + ", form_.block_rows, " : ",
                 plan_.rows, ";"));
  for (size_t k = 0; k < plan_.reductions.size(); ++k)
    text_.line(str(type(reduction(k)), " e", k, "[", form_.width, "]; LS_EACH(", form_.width, ") e", k,
                   "[j] = ", folding_.neutral(reduction(k)), ";"));
  roots_here_ = all;
  hoist_columns(statements, all, 1);
  if (!hoisted_.empty()) {
    text_.open("{");
    text_.line("const int k = 0;");
    write_hoisted(statements);
    text_.close();
  }
  computed_ = hoisted_;
  if (!staged_.empty()) {
    text_.line(str("const ", number_, " limit = to;"));
    fetch_first(statements, "from", "1", true);
  }
  text_.line(staged_.empty() ? "#pragma unroll 4" : "#pragma unroll 2");
  text_.open(str("for (", number_, " r = from; r < to; ++r) {"));
  text_.line("const int k = 0; (void)k;");
  auto ids = statements.closure(all, hoisted_);
  if (!staged_.empty()) {
    text_.line(str("const ", number_, " next = r + ", depth_, "; ls_wait<", depth_ - 1, ">();"));
    take_chunks(statements, ids, "0");
  }
  for (int id : ids)
    if (!statements.item(id).varies) statements.row(text_, id);
  chunk(statements, ids, true, [&] {
    for (size_t k = 0; k < plan_.reductions.size(); ++k)
      text_.line(str("e", k, "[j] = ", functor(reduction(k)), "(e", k, "[j], t", reduction(k).item, ");"));
  });
  if (!staged_.empty()) {
    fetch_chunks(statements);
    text_.line(str("ls_commit(); slot = slot + 1 == ", depth_, " ? 0 : slot + 1;"));
  }
  text_.close();
  for (size_t k = 0; k < plan_.reductions.size(); ++k)
    text_.line(str("LS_EACH(", form_.width, ") (", sums(k), " + (i64)b * ", plan_.columns, ")[c0 + j] = e", k,
                   "[j];"));
  close_function();
  computed_.clear();
  hoisted_.clear();
}

void Nest::combine_kernel() {
  ChunkStatements statements(body_, plan_.combine_items, *plan_.combine_indexer, dialect_, 1);
  const int segments = form_.segments;
  open_function(name_ + "_combine", over(plan_.columns, kCombineColumns), kCombineColumns * segments);
  text_.line(
      str("const int x = threadIdx.x % ", kCombineColumns, ", s = threadIdx.x / ", kCombineColumns, ";"));
  text_.line(str("const ", number_, " c0 = (", number_, ")blockIdx.x * ", kCombineColumns, " + x, at = c0 < ",
                 plan_.columns, " ? c0 : ", plan_.columns - 1, ";"));
  std::vector<size_t> columns;
  for (size_t k = 0; k < plan_.reductions.size(); ++k)
    if (reduction(k).column) columns.push_back(k);
  size_t bytes = 0;
  for (size_t k : columns) bytes = std::max(bytes, size_of(codegen::accumulator(type_of(reduction(k)))));
  text_.line(str("__shared__ __align__(16) char m[", bytes * (segments * kCombineColumns), "];"));
  for (size_t k : columns) {
    const Reduction& one = reduction(k);
    text_.line(str(type(one), " (*const m", k, ")[", kCombineColumns, "] = (", type(one), " (*)[",
                   kCombineColumns, "])m;"));
    text_.line(str(type(one), " v", k, " = ", sums(k), "[(i64)s * ", plan_.columns, " + at];"));
    if (segments < form_.row_blocks) {
      text_.line("#pragma unroll 8");
      text_.line(str("for (int b = s + ", segments, "; b < ", form_.row_blocks, "; b += ", segments, ") v", k,
                     " = ", functor(one), "(v", k, ", ", sums(k), "[(i64)b * ", plan_.columns, " + at]);"));
    }
    text_.line(str("m", k, "[s][x] = v", k, "; __syncthreads();"));
    text_.line(str(type(one), " u", k, " = m", k, "[0][x]; for (int i = 1; i < ", segments, "; ++i) u", k,
                   " = ", functor(one), "(u", k, ", m", k, "[i][x]);"));
    text_.line(
        str("const ", type(one), " q", k, " = ", folding_.rounded(one, str("u", k)), "; __syncthreads();"));
  }
  text_.line(str("if (s != 0 || c0 >= ", plan_.columns, ") return;"));
  std::vector<int> ends;
  for (const Store& store : plan_.stores)
    if (store.level == Level::column) ends.push_back(store.item);
  auto ids = statements.closure(ends);
  for (int id : ids)
    if (!statements.item(id).varies) statements.row(text_, id);
  chunk(statements, ids, false, [&] {
    for (const Store& store : plan_.stores)
      if (store.level == Level::column)
        text_.line(str("ls_put_", name(output_dtype(store.output)), "(o", store.output, ", ",
                       statements.at(store.index, "c"), ", t", store.item, ");"));
  });
  close_function();
}

}  // namespace lockstep::compiler::cuda
