// Rows by teams of threads: a loop over the row for each stage of row reductions. Sums of lanes are combined
// first, then those of warps.
#include "compiler/codegen/cuda/loops/form.h"
#include "compiler/codegen/cuda/loops/nest.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

using codegen::Level;
using codegen::Plan;
using codegen::Reduction;
using codegen::Store;

namespace {
constexpr int kRowThreads = 128;  // per block of teams of up to a warp
// Chunks of a lane, up to which loops over them are unrolled and their values may stay in registers.
constexpr int kMostUnrolled = 8;
constexpr int64_t kWideRow = 224 << 10;   // bytes of shared memory for the chunks of a wide row
constexpr int64_t kTwoRows = 112 << 10;   // where two blocks fit a multiprocessor
constexpr int64_t kRowsAhead = 80 << 10;  // for the next rows of a block that keeps column sums
constexpr int64_t kWideBlocks = 132;      // of wide rows, for each block that fits on a multiprocessor
constexpr int kVeryDear = 100;  // cost from which a value of a row is kept for the next loop over it
}  // namespace

void Nest::row_kernel(bool column_sums) {
  const int lanes = form_.lanes,
            teams = column_sums ? form_.teams : (form_.whole_warps() ? 1 : kRowThreads / lanes),
            block = teams * lanes;
  ChunkStatements statements(body_, plan_.items, *plan_.indexer, dialect_, form_.width);
  unrolled_ = form_.steps <= kMostUnrolled;
  const bool wide = !column_sums && form_.whole_warps() && !unrolled_ && plan_.stages > 1;
  stage_rows(statements, column_sums, wide, block);
  const bool two =
      column_sums ? teams > 1 && plan_.row_reductions : staged_bytes_ > 0 && staged_bytes_ <= kTwoRows;
  const int resident = two ? 2 : 1;
  const bool loops = wide && staged_bytes_ > 0;  // over rows, while the next one is being copied
  const int64_t grid = column_sums ? form_.row_blocks
                       : loops     ? std::min(plan_.rows, kWideBlocks * resident)
                                   : over(plan_.rows, teams);
  open_function(name_, grid, block, resident, staged_bytes_);
  text_.line(
      str("const int lane = threadIdx.x % ", lanes, ", team = threadIdx.x / ", lanes, "; (void)team;"));
  std::vector<size_t> columns;
  for (size_t k = 0; k < plan_.reductions.size(); ++k)
    if (reduction(k).column) columns.push_back(k);
  if (column_sums) {
    open_column_sums(statements, columns);
    if (staged_bytes_ > 0) {
      text_.line(str("const ", number_, " first = (", number_, ")blockIdx.x * ", form_.block_rows,
                     " + team, end = first - team + ", form_.block_rows, ", limit = end < ", plan_.rows,
                     " ? end : ", plan_.rows, ";"));
      fetch_first(statements, "first", str(teams), false);
    }
    text_.line("#pragma unroll 1");
    text_.open(str("for (int i = 0; i < ", form_.block_rows, "; i += ", teams, ") {"));
    text_.line(
        str("const ", number_, " row = (", number_, ")blockIdx.x * ", form_.block_rows, " + i + team;"));
    if (teams == 1) text_.line(str("if (row >= ", plan_.rows, ") break;"));
    if (staged_bytes_ > 0) text_.line(str("const ", number_, " next = row + ", depth_ * teams, ";"));
  } else if (loops) {
    text_.line(str("const ", number_, " limit = ", plan_.rows, "; int i = 0;"));
    fetch_first(statements, str("(", number_, ")blockIdx.x"), str(grid), false);
    text_.line("#pragma unroll 1");
    text_.open(str("for (", number_, " row = blockIdx.x; row < limit; row += ", grid, ", ++i) {"));
    text_.line(str("const ", number_, " next = row + ", depth_ * grid, ";"));
  } else {
    text_.line(str("const ", number_, " row = (", number_, ")blockIdx.x * ", teams, " + team;"));
    text_.line("const int i = 0;");
  }
  guarded_ = teams > 1 && (column_sums || plan_.rows % teams != 0);
  if (guarded_) text_.line(str("const bool live = row < ", plan_.rows, ";"));
  text_.line(guarded_ ? str("const ", number_, " r = live ? row : ", plan_.rows - 1, "; (void)r;")
                      : str("const ", number_, " r = row; (void)r;"));
  one_row(statements);
  if (staged_bytes_ > 0) text_.line(str("ls_commit(); slot = slot + 1 == ", depth_, " ? 0 : slot + 1;"));
  if (column_sums || loops) text_.close();
  if (column_sums) fold_teams(columns, teams);
  close_function();
  kept_values_.clear();
  computed_.clear();
  hoisted_.clear();
}

// Declares the column sums of a team, and values of its columns, before the loop over rows.
void Nest::open_column_sums(const ChunkStatements& statements, const std::vector<size_t>& columns) {
  for (size_t k : columns) {
    text_.line(str(type(reduction(k)), " e", k, "[", form_.steps, "][", form_.width, "];"));
    text_.line(str("LS_EACH(", form_.steps * form_.width, ") e", k, "[j / ", form_.width, "][j % ",
                   form_.width, "] = ", folding_.neutral(reduction(k)), ";"));
  }
  if (unrolled_) {
    std::vector<int> all;
    for (const auto& some : roots(statements)) all.insert(all.end(), some.begin(), some.end());
    hoist_columns(statements, all, form_.steps);
  }
  if (hoisted_.empty()) return;
  text_.line("#pragma unroll");
  text_.open(str("for (int k = 0; k < ", form_.steps, "; ++k) {"));
  text_.line(str("const int q = lane + k * ", form_.lanes, ";"));
  if (form_.chunks % form_.lanes != 0) text_.line(str("if (q >= ", form_.chunks, ") break;"));
  text_.line(str("const ", number_, " c0 = (", number_, ")q * ", form_.width, ";"));
  write_hoisted(statements);
  text_.close();
}

// Wide rows that several stages read stay in shared memory; rows of blocks that keep column sums are copied
// there ahead of time.
void Nest::stage_rows(const ChunkStatements& statements, bool column_sums, bool wide, int block) {
  staged_.clear();
  staged_bytes_ = 0;
  if (!wide && !(column_sums && unrolled_)) return;
  std::map<int, int> uses;
  const auto stage_roots = roots(statements);
  for (size_t stage = 0; stage < stage_roots.size(); ++stage) {
    if (!stage_roots[stage].empty()) last_loop_ = static_cast<int>(stage);
    for (int id : statements.closure(stage_roots[stage])) ++uses[id];
  }
  std::vector<int> ids;
  for (auto [id, count] : uses)
    if (count > 1 || column_sums) ids.push_back(id);
  plan_stage(statements, ids, block, form_.steps, column_sums ? 4 : 1, column_sums ? kRowsAhead : kWideRow);
  if (column_sums && depth_ < 2) staged_.clear(), staged_bytes_ = 0;
}

void Nest::one_row(ChunkStatements& statements) {
  auto stage_roots = roots(statements);
  std::vector<int> all;
  for (const auto& some : stage_roots) all.insert(all.end(), some.begin(), some.end());
  bool writes_rows = false, writes_elements = false;
  for (const Store& store : plan_.stores) {
    if (store.level == Level::row) all.push_back(store.item), writes_rows = true;
    if (store.level == Level::element) writes_elements = true;
  }
  for (const Reduction& one : plan_.reductions)
    if (takes(statements, one)) all.push_back(one.item);
  const auto needed = statements.closure(all);
  auto row_items = [&](int stage) {
    for (int id : needed)
      if (!statements.item(id).varies && statements.item(id).stage == stage) statements.row(text_, id);
  };
  keep_chunks(statements, stage_roots);
  std::set<int> loaded;
  for (int stage = 0; stage < plan_.stages; ++stage) {
    row_items(stage);
    bool took = false;
    for (size_t k = 0; k < plan_.reductions.size(); ++k)
      if (reduction(k).stage == stage && takes(statements, reduction(k))) take(statements, k), took = true;
    // An element may be overwritten in the place where it was read, but only after a barrier.
    const bool meets =
        form_.whole_warps() &&
        std::any_of(plan_.reductions.begin(), plan_.reductions.end(), [&](const Reduction& one) {
          return !one.column && one.stage == stage && !takes(statements, one);
        });
    if (took && writes_elements && !meets)
      text_.line(form_.whole_warps() ? "__syncthreads();" : "__syncwarp();");
    if (stage == 0 && staged_bytes_ > 0) text_.line(str("ls_wait<", depth_ - 1, ">();"));
    if (!stage_roots[stage].empty()) one_stage(statements, stage, stage_roots[stage], loaded);
  }
  row_items(plan_.stages);
  if (!writes_rows) return;
  // An output of a row may share the place of an input of the row.
  text_.line(form_.whole_warps() ? "__syncthreads();" : "__syncwarp();");
  text_.open(guarded_ ? "if (lane == 0 && live) {" : "if (lane == 0) {");
  for (const Store& store : plan_.stores)
    if (store.level == Level::row)
      text_.line(str("ls_put_", name(output_dtype(store.output)), "(o", store.output, ", ",
                     statements.at(store.index, "0"), ", t", store.item, ");"));
  text_.close();
}

// Chunks that several stages read stay in registers, in their memory layout, while there are registers for
// them.
void Nest::keep_chunks(ChunkStatements& statements, const std::vector<std::vector<int>>& stage_roots) {
  kept_.clear();
  kept_values_.clear();
  computed_ = hoisted_;
  statements.forget_names();
  for (const auto& [id, at] : staged_) statements.rename_chunk(id, str("x", id));
  if (!unrolled_) return;
  int sums = 0;  // registers of a thread for column sums and values of columns
  for (int id : hoisted_)
    sums += form_.steps * form_.width *
            static_cast<int>(std::max<size_t>(4, size_of(statements.item(id).dtype))) / 4;
  for (const Reduction& one : plan_.reductions)
    if (one.column)
      sums += form_.steps * form_.width * static_cast<int>(std::max<size_t>(4, size_of(type_of(one)))) / 4;
  int left = form_.lanes > 512 ? 32 : std::min(72, 82 - sums);  // registers for chunks
  std::map<int, int> uses;
  for (const auto& some : stage_roots)
    for (int id : statements.closure(some, hoisted_))
      if (statements.item(id).varies && statements.loads_chunk(id)) ++uses[id];
  // Rows that only the last stage reads are loaded together with the others, so that they arrive while the
  // first stages run.
  for (auto& [id, count] : uses)
    if (plan_.stages > 1 && statements.item(id).stage == 0 && statements.reads_row(id)) ++count;
  for (auto [id, count] : uses) {
    const int cost =
        std::max<int>(1, static_cast<int>(size_of(statements.item(id).dtype)) * form_.width / 4) *
        form_.steps;
    if (count < 2 || cost > left || staged(id)) continue;
    left -= cost;
    kept_.insert(id);
    statements.rename_chunk(id, str("x", id, "[k]"));
    text_.line(str(statements.chunk_type(id), " x", id, "[", form_.steps, "];"));
  }
  keep_values(statements, stage_roots, left);
}

// Values that are expensive to compute again, such as random numbers, stay in registers, too.
void Nest::keep_values(const ChunkStatements& statements, const std::vector<std::vector<int>>& stage_roots,
                       int left) {
  std::set<int> seen;
  for (const auto& some : stage_roots) {
    std::set<int> known = kept_values_;
    known.insert(hoisted_.begin(), hoisted_.end());
    for (int id : statements.closure(some, known)) {
      const codegen::Item& item = statements.item(id);
      const int cost =
          form_.steps * form_.width * static_cast<int>(std::max<size_t>(4, size_of(item.dtype))) / 4;
      if (item.varies && item.cost >= kVeryDear && !seen.insert(id).second && cost <= left) {
        left -= cost;
        kept_values_.insert(id);
      }
    }
  }
  for (int id : kept_values_)
    text_.line(
        str(dialect_.type(statements.item(id).dtype), " v", id, "[", form_.steps, "][", form_.width, "];"));
}

void Nest::one_stage(ChunkStatements& statements, int stage, const std::vector<int>& stage_roots,
                     std::set<int>& loaded) {
  roots_here_ = stage_roots;
  std::vector<size_t> rows;
  for (size_t k = 0; k < plan_.reductions.size(); ++k)
    if (!reduction(k).column && reduction(k).stage == stage && !takes(statements, reduction(k)))
      rows.push_back(k);
  for (size_t k : rows) {
    const Reduction& one = reduction(k);
    if (position(one))
      text_.line(str(type(one), " s", k, " = ", dialect_.literal(type_of(one), 0), "; i32 p", k, " = -1;"));
    else
      text_.line(str(type(one), " s", k, "[", form_.width, "]; LS_EACH(", form_.width, ") s", k,
                     "[j] = ", folding_.neutral(one), ";"));
  }
  if (plan_.columns > 0) stage_loop(statements, stage, rows, loaded);
  meet(rows);
}

void Nest::stage_loop(ChunkStatements& statements, int stage, const std::vector<size_t>& rows,
                      std::set<int>& loaded) {
  text_.line(unrolled_                 ? "#pragma unroll"
             : plan_.column_reductions ? "#pragma unroll 1"
                                       : "#pragma unroll 2");
  text_.open(str("for (int k = 0; k < ", form_.steps, "; ++k) {"));
  text_.line(str("const int q = lane + k * ", form_.lanes, ";"));
  const bool partial = form_.chunks % form_.lanes != 0;
  std::string guard = str(partial ? str("q < ", form_.chunks) : "", partial && guarded_ ? " && " : "",
                          guarded_ ? "live" : "");
  if (!guard.empty()) text_.open(str("if (", guard, ") {"));
  text_.line(str("const ", number_, " c0 = (", number_, ")q * ", form_.width, ";"));
  const auto ids = statements.closure(roots_here_, computed_);
  for (int id : kept_)
    if (statements.item(id).stage <= stage && loaded.insert(id).second)
      text_.line(str("x", id, "[k] = ", statements.chunk_load(id), ";"));
  take_chunks(statements, ids, "k");
  stage_chunk(statements, ids, stage == plan_.stages - 1, rows);
  if (stage == last_loop_ && !staged_.empty()) fetch_chunks(statements);
  if (!guard.empty()) text_.close();
  text_.close();
  for (int id : ids)
    if (kept_values_.count(id)) computed_.insert(id);
}

// Few chunks of a wide row contain the column that the row names; the others get separate statements.
void Nest::stage_chunk(ChunkStatements& statements, const std::vector<int>& ids, bool last,
                       const std::vector<size_t>& rows) {
  auto inside = [&] { accumulate(rows, last); };
  std::set<int> named;
  std::string hit;
  for (int id : ids)
    if (const int number = unrolled_ ? -1 : one_hot(statements, id); number >= 0) {
      named.insert(id);
      hit +=
          str(hit.empty() ? "" : " || ", "(t", number, " >= c0 && t", number, " < c0 + ", form_.width, ")");
    }
  if (named.empty()) return chunk(statements, ids, last, inside);
  text_.open(str("if (", hit, ") {"));
  chunk(statements, ids, last, inside);
  text_.close();
  text_.open("else {");
  statements.assume_false(named);
  chunk(statements, ids, last, inside);
  statements.assume_false({});
  text_.close();
}

// Adds an element to the sums of its row and, in the last loop, of its column.
void Nest::accumulate(const std::vector<size_t>& rows, bool last) {
  for (size_t k : rows) {
    const Reduction& one = reduction(k);
    if (position(one))
      text_.line(str("ls_best(s", k, ", p", k, ", t", one.item, ", (i32)c, ", largest(one), ");"));
    else
      text_.line(str("s", k, "[j] = ", functor(one), "(s", k, "[j], t", one.item, ");"));
  }
  for (size_t k = 0; last && k < plan_.reductions.size(); ++k)
    if (reduction(k).column)
      text_.line(
          str("e", k, "[k][j] = ", functor(reduction(k)), "(e", k, "[k][j], t", reduction(k).item, ");"));
}

// Adds the sums of lanes, then those of warps.
void Nest::meet(const std::vector<size_t>& rows) {
  const int lanes = std::min(form_.lanes, 32);
  for (size_t k : rows) {
    const Reduction& one = reduction(k);
    if (position(one)) {
      text_.line(str("ls_best_lanes<", lanes, ">(s", k, ", p", k, ", ", largest(one), ");"));
    } else {
      text_.line(str(type(one), " z", k, " = ls_lanes<", lanes, ">(ls_fold(s", k, ", ", functor(one), "), ",
                     functor(one), ");"));
    }
  }
  if (form_.whole_warps() && !rows.empty()) {
    // Two places alternate: a warp may be one row ahead of the slowest, but never two.
    for (size_t k : rows) {
      text_.line(str("__shared__ ", type(reduction(k)), " m", k, "[2][32];"));
      if (position(reduction(k))) text_.line(str("__shared__ i32 d", k, "[2][32];"));
    }
    text_.open("if (lane % 32 == 0) {");
    for (size_t k : rows) {
      if (position(reduction(k)))
        text_.line(str("m", k, "[i & 1][lane / 32] = s", k, "; d", k, "[i & 1][lane / 32] = p", k, ";"));
      else
        text_.line(str("m", k, "[i & 1][lane / 32] = z", k, ";"));
    }
    text_.close();
    text_.line("__syncthreads();");
    int places = 1;  // one per warp; absent ones are neutral, and the tree above them adds nothing
    while (places < form_.warps()) places *= 2;
    const std::string place = str("lane % ", places), there = str(place, " < ", form_.warps());
    for (size_t k : rows) {
      const Reduction& one = reduction(k);
      if (position(one)) {
        text_.line(str("s", k, " = ", there, " ? m", k, "[i & 1][", place,
                       "] : ", dialect_.literal(type_of(one), 0), "; p", k, " = ", there, " ? d", k,
                       "[i & 1][", place, "] : -1;"));
        text_.line(str("ls_best_lanes<", places, ">(s", k, ", p", k, ", ", largest(one), ");"));
      } else {
        text_.line(str("z", k, " = ls_lanes<", places, ">(", there, " ? m", k, "[i & 1][", place,
                       "] : ", folding_.neutral(one), ", ", functor(one), ");"));
      }
    }
  }
  for (size_t k : rows)
    text_.line(position(reduction(k)) ? str("const i32 q", k, " = p", k, ";")
                                      : str("const ", type(reduction(k)), " q", k, " = ",
                                            folding_.rounded(reduction(k), str("z", k)), ";"));
}

}  // namespace lockstep::compiler::cuda
