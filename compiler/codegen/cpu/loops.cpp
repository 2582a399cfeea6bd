// Loop nests. Rows run in parallel. Per row there is one loop over the columns for each stage of row
// reductions, and the last one stores. Column sums are kept per block of rows and combined at the end.
#include "compiler/codegen/cpu/loops.h"

#include <algorithm>
#include <set>

#include "compiler/codegen/cpu/dialect.h"
#include "compiler/codegen/cpu/prelude.h"
#include "compiler/codegen/loops/space.h"
#include "compiler/codegen/statements/statements.h"
#include "core/base/error.h"

namespace lockstep::compiler::cpu {

using codegen::accumulator;
using codegen::finds_position;
using codegen::Folding;
using codegen::Item;
using codegen::kDear;
using codegen::Level;
using codegen::Plan;
using codegen::Reduction;
using codegen::Statements;
using codegen::Store;

int64_t column_block(int64_t rows) { return std::max<int64_t>(32, (rows + 31) / 32); }

namespace {

constexpr int64_t kParallelWork = 32768;  // elements below which threads do not pay off
constexpr int64_t kColumnTile = 2048;
constexpr int64_t kBlocksOnStack = int64_t{1} << 16;  // blocks of a row whose results fit on the stack
// Bytes up to which expensive values of a row are kept for the next loop over it.
constexpr int64_t kRowCache = 16384;

class Nest {
 public:
  Nest(const Graph& body, const Plan& plan)
      : body_(body),
        plan_(plan),
        main_(body, plan.items, *plan.indexer, dialect()),
        end_(body, plan.combine_items, *plan.combine_indexer, dialect()),
        folding_(body, dialect()) {}

  std::string write(const std::string& name) {
    text_.open("{");
    for (size_t i = 0; i < body_.inputs.size(); ++i)
      text_.line(str("const void* const a", i, " = args[", i, "];"));
    for (size_t i = 0; i < body_.outputs.size(); ++i)
      text_.line(str("void* const o", i, " = args[", body_.inputs.size() + i, "];"));
    whole_ = plan_.columns / 16 * 16;
    parallel_ = static_cast<double>(plan_.rows) * static_cast<double>(plan_.columns) > kParallelWork;
    plan_stages();
    if (plan_.column_reductions)
      column_nest();
    else
      row_nest();
    text_.close();
    return "extern \"C\" void " + name + "(void* const* args, int threads)\n" + text_.take();
  }

 private:
  DType type_of(const Reduction& reduction) const { return folding_.dtype(reduction); }
  std::string vector_of(const Reduction& reduction) const { return folding_.type(reduction); }
  std::string mask_type(const Reduction& reduction) const {
    switch (size_of(accumulator(type_of(reduction)))) {
      case 1:
        return "vb";
      case 2:
        return "vh";
      case 8:
        return "vl";
      default:
        return "vi";
    }
  }
  std::string tree(const Reduction& reduction, const std::string& lanes) const {
    return str("ls_tree<", mask_type(reduction), ">(", lanes, ", [](", vector_of(reduction), " a, ",
               vector_of(reduction), " b) __attribute__((always_inline)) { return ",
               folding_.combined(reduction, "a", "b"), "; })");
  }

  // The items that each stage's loop computes, and the expensive values of a row that are kept between loops.
  void plan_stages() {
    const int last = plan_.stages - 1;
    roots_.assign(plan_.stages, {});
    for (const Reduction& reduction : plan_.reductions)
      roots_[reduction.column ? last : reduction.stage].push_back(reduction.item);
    for (const Store& store : plan_.stores)
      if (store.level == Level::element) roots_[last].push_back(store.item);
    std::vector<int> all;
    for (auto& roots : roots_) all.insert(all.end(), roots.begin(), roots.end());
    for (const Store& store : plan_.stores)
      if (store.level == Level::row) all.push_back(store.item);
    for (int id : main_.closure(all, {}))
      if (!plan_.items[id].varies) row_items_.push_back(id);
    std::set<int> seen;
    for (auto& roots : roots_) {
      std::set<int> cached;
      for (int id : main_.closure(roots, cached_)) {
        const Item& item = plan_.items[id];
        if (item.varies && item.cost >= kDear && seen.count(id) &&
            plan_.columns * static_cast<int64_t>(size_of(accumulator(item.dtype))) <= kRowCache)
          cached_.insert(id);
        seen.insert(id);
      }
    }
  }

  const Item& item(int id) const { return plan_.items[id]; }

  // Items, sums and stores of one stage for the columns from c on in row r.
  void stage_body(int stage, bool tail) {
    const bool last = stage == plan_.stages - 1;
    std::set<int> known;
    for (int id : cached_)
      if (written_.count(id)) known.insert(id);
    for (int id : main_.closure(roots_[stage], known)) {
      if (!item(id).varies) continue;
      main_.write(text_, id, "c", tail);
      if (cached_.count(id)) {
        text_.line(str("ls_store_", name(accumulator(item(id).dtype)), "(k", id, ", c, t", id, ");"));
        fresh_.insert(id);
      }
    }
    for (size_t k = 0; k < plan_.reductions.size(); ++k) {
      const Reduction& reduction = plan_.reductions[k];
      if (reduction.column ? !last : reduction.stage != stage) continue;
      std::string value = str("t", reduction.item), type(name(accumulator(type_of(reduction))));
      if (finds_position(*reduction.node)) {
        text_.line(str("ls_best(s", k, "[h], p", k, "[h], ", value, ", (i32)c + LS_LANE, ls_first(",
                       tail ? "m" : "LS_W", "), ", reduction.node->op == ops::argmax, ");"));
      } else if (!reduction.column) {
        if (tail) value = str("ls_where(ls_first(m), ", value, ", ", folding_.neutral(reduction), ")");
        text_.line(str("s", k, "[h] = ", folding_.combined(reduction, str("s", k, "[h]"), value), ";"));
      } else if (tail) {
        text_.line(str("ls_store_n_", type, "(s", k, ", c, ",
                       folding_.combined(reduction, str("ls_load_n_", type, "(s", k, ", c, m)"), value),
                       ", m);"));
      } else {
        text_.line(str("ls_store_", type, "(s", k, ", c, ",
                       folding_.combined(reduction, str("ls_load_", type, "(s", k, ", c)"), value), ");"));
      }
    }
    if (!last) return;
    for (const Store& store : plan_.stores) {
      if (store.level != Level::element) continue;
      const DType dtype = body_[body_.outputs[store.output].value].dtype;
      std::string at = main_.at(store.index);
      text_.line(
          tail ? str("ls_store_n_", name(dtype), "(o", store.output, ", ", at, ", t", store.item, ", m);")
               : str("ls_store_", name(dtype), "(o", store.output, ", ", at, ", t", store.item, ");"));
    }
  }
  // Loads values that an earlier loop over the row kept.
  void cached_loads(int stage) {
    for (int id : cached_) {
      if (!written_.count(id)) continue;
      std::vector<int> need = main_.closure(roots_[stage], {});
      if (std::find(need.begin(), need.end(), id) == need.end()) continue;
      text_.line(str("const ", register_type(item(id).dtype), " t", id, " = ls_load_",
                     name(accumulator(item(id).dtype)), "(k", id, ", c);"));
    }
  }

  // The columns [lo, hi) of a row, both multiples of 16 (as text), then the tail if `tail_if` holds (""
  // always, "0" never).
  void column_loop(int stage, const std::string& lo, const std::string& hi, const std::string& tail_if) {
    if (whole_ > 0) {
      text_.open(str("for (i64 v = ", lo, "; v < ", hi, "; v += 16) for (int h = 0; h < LS_K; ++h) {"));
      text_.line("const i64 c = v + h * LS_W;");
      cached_loads(stage);
      stage_body(stage, false);
      text_.close();
    }
    const int64_t rest = plan_.columns - whole_;
    if (rest > 0) {
      text_.open(str(tail_if.empty() ? "" : str("if (", tail_if, ") "), "for (int h = 0; h < LS_K; ++h) {"));
      text_.line(str("const i64 c = ", whole_, " + h * LS_W, m = ", rest, " - h * LS_W < LS_W ? ", rest,
                     " - h * LS_W : LS_W;"));
      text_.line("if (m <= 0) break;");
      cached_loads(stage);
      stage_body(stage, true);
      text_.close();
    }
  }

  void declare_lanes(size_t k) {
    const Reduction& reduction = plan_.reductions[k];
    bool position = finds_position(*reduction.node);
    std::string zero = position ? str("ls_full_", name(accumulator(type_of(reduction))), "(0)")
                                : folding_.neutral(reduction);
    text_.line(str(vector_of(reduction), " s", k, "[LS_K]; for (int h = 0; h < LS_K; ++h) s", k,
                   "[h] = ", zero, ";"));
    if (position)
      text_.line(str("vi p", k, "[LS_K]; for (int h = 0; h < LS_K; ++h) p", k, "[h] = vi{} - 1;"));
  }

  // Distributes the blocks over threads if `here`: it is the only loop of the kernel, or there are too few
  // rows to share.
  void row_stage(int stage, bool here) {
    std::vector<size_t> sums;
    bool positions = false;
    for (size_t k = 0; k < plan_.reductions.size(); ++k)
      if (!plan_.reductions[k].column && plan_.reductions[k].stage == stage)
        sums.push_back(k), positions = positions || finds_position(*plan_.reductions[k].node);
    const bool blocks = plan_.columns > kBlock && !positions && (here || !sums.empty());
    if (!blocks) {
      for (size_t k : sums) declare_lanes(k);
      column_loop(stage, "0", str(whole_), "");
      for (size_t k : sums) finish(k, str("s", k));
    } else {
      const int64_t count = (plan_.columns + kBlock - 1) / kBlock;
      const bool on_heap = count > kBlocksOnStack;
      for (size_t k : sums) {
        const std::string type(lane_type(type_of(plan_.reductions[k])));
        text_.line(on_heap ? str(type, "* const b", k, " = (", type, "*)__builtin_malloc(", count,
                                 " * sizeof(", type, "));")
                           : str(type, " b", k, "[", count, "];"));
      }
      if (here) text_.line("#pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)");
      text_.open(str("for (i64 b = 0; b < ", count, "; ++b) {"));
      text_.line(str("const i64 to = (b + 1) * ", kBlock, " < ", whole_, " ? (b + 1) * ", kBlock, " : ",
                     whole_, ";"));
      for (size_t k : sums) declare_lanes(k);
      column_loop(stage, str("b * ", kBlock), "to", str("b == ", count - 1));
      for (size_t k : sums) text_.line(str("b", k, "[b] = ", tree(plan_.reductions[k], str("s", k)), "[0];"));
      text_.close();
      for (size_t k : sums) {
        fold_blocks(k, count);
        if (on_heap) text_.line(str("__builtin_free(b", k, ");"));
      }
    }
    written_.insert(fresh_.begin(), fresh_.end());
  }
  // Reduces the blocks' results like a row of their own.
  void fold_blocks(size_t k, int64_t count) {
    const Reduction& reduction = plan_.reductions[k];
    std::string type(name(accumulator(type_of(reduction)))), z = str("z", k);
    text_.line(str(vector_of(reduction), " ", z, "[LS_K]; for (int h = 0; h < LS_K; ++h) ", z,
                   "[h] = ", folding_.neutral(reduction), ";"));
    text_.open(str("for (i64 v = 0; v < ", count, "; v += LS_W) {"));
    text_.line(
        str("const i64 m = ", count, " - v < LS_W ? ", count, " - v : LS_W; const int h = v / LS_W % LS_K;"));
    text_.line(str(z, "[h] = ",
                   folding_.combined(reduction, z + "[h]",
                                     str("ls_where(ls_first(m), ls_load_n_", type, "(b", k, ", v, m), ",
                                         folding_.neutral(reduction), ")")),
                   ";"));
    text_.close();
    finish(k, z);
  }
  void finish(size_t k, const std::string& lanes) {
    const Reduction& reduction = plan_.reductions[k];
    if (finds_position(*reduction.node))
      text_.line(str("const vi q", k, " = ls_best_of(", lanes, ", p", k, ", ",
                     reduction.node->op == ops::argmax, ");"));
    else
      text_.line(str("const ", vector_of(reduction), " q", k, " = ",
                     folding_.rounded(reduction, tree(reduction, lanes)), ";"));
  }

  void row_items(int stage) {
    for (int id : row_items_)
      if (item(id).stage == stage) main_.write(text_, id);
  }
  // One whole row: its row items, then a loop per stage.
  void row(bool here) {
    written_.clear();
    fresh_.clear();
    for (int id : cached_)
      text_.line(str("alignas(64) ", lane_type(item(id).dtype), " k", id, "[", (plan_.columns + 15) / 16 * 16,
                     "];"));
    for (int stage = 0; stage < plan_.stages; ++stage) {
      row_items(stage);
      if (!roots_[stage].empty()) row_stage(stage, here);
    }
    row_items(plan_.stages);
    for (const Store& store : plan_.stores) {
      if (store.level != Level::row) continue;
      const DType dtype = body_[body_.outputs[store.output].value].dtype;
      text_.line(str("ls_put_", name(dtype), "(o", store.output, ", ", main_.at(store.index), ", t",
                     store.item, "[0]);"));
    }
  }

  void row_nest() {
    const bool here = parallel_ && plan_.rows <= 4 && plan_.columns > 2 * kBlock;
    if (here) cached_.clear();
    if (parallel_ && !here)
      text_.line("#pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)");
    text_.open(str("for (i64 r = 0; r < ", plan_.rows, "; ++r) {"));
    row(here);
    text_.close();
  }

  void column_nest() {
    const int64_t rows = plan_.rows, columns = plan_.columns, block = column_block(rows),
                  blocks = (rows + block - 1) / block;
    // Only whole rows are written.
    const bool writes_rows = std::any_of(plan_.stores.begin(), plan_.stores.end(),
                                         [](const auto& store) { return store.level == Level::row; });
    const bool tiled = !plan_.row_reductions && columns > kColumnTile && !writes_rows;
    const int64_t tiles = tiled ? (columns + kColumnTile - 1) / kColumnTile : 1;
    std::vector<size_t> sums;
    for (size_t k = 0; k < plan_.reductions.size(); ++k)
      if (plan_.reductions[k].column) sums.push_back(k);
    auto element = [&](size_t k) { return std::string(lane_type(type_of(plan_.reductions[k]))); };
    for (size_t k : sums)
      text_.line(str(element(k), "* const w", k, " = (", element(k), "*)__builtin_malloc(", blocks * columns,
                     " * sizeof(", element(k), "));"));
    if (parallel_)
      text_.line("#pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)");
    text_.open(str("for (i64 task = 0; task < ", blocks * tiles, "; ++task) {"));
    text_.line(str("const i64 b = task / ", tiles, ", from = task % ", tiles, " * ",
                   tiled ? kColumnTile : columns, ";"));
    text_.line(str("const i64 end = from + ", tiled ? kColumnTile : columns, " < ", columns, " ? from + ",
                   tiled ? kColumnTile : columns, " : ", columns, ", to = end < ", whole_,
                   " ? end : ", whole_, ";"));
    for (size_t k : sums) {
      text_.line(str(element(k), "* const s", k, " = w", k, " + b * ", columns, ";"));
      text_.line(str("for (i64 c = from; c < end; ++c) s", k, "[c] = ", folding_.neutral(plan_.reductions[k]),
                     "[0];"));
    }
    text_.open(str("for (i64 r = b * ", block, "; r < ", rows, " && r < (b + 1) * ", block, "; ++r) {"));
    if (tiled) {
      for (int stage = 0; stage < plan_.stages; ++stage) row_items(stage);
      column_loop(0, "from", "to", str("end == ", columns));
    } else {
      row(false);
    }
    text_.close();
    text_.close();
    combine_blocks(sums, blocks);
    for (size_t k : sums) text_.line(str("__builtin_free(w", k, ");"));
  }

  // Adds what the blocks of rows gave, and stores what is made of these sums.
  void combine_blocks(const std::vector<size_t>& sums, int64_t blocks) {
    const int64_t columns = plan_.columns;
    const bool share = static_cast<double>(columns) * static_cast<double>(blocks) > kParallelWork;
    if (share) text_.line("#pragma omp parallel for num_threads(threads) schedule(static) if(threads > 1)");
    text_.open(str("for (i64 v = 0; v < ", columns, "; v += LS_W) {"));
    text_.line(str("const i64 c = v, m = ", columns, " - v < LS_W ? ", columns, " - v : LS_W;"));
    for (size_t k : sums) {
      const Reduction& reduction = plan_.reductions[k];
      const std::string load = str("ls_load_n_", name(accumulator(type_of(reduction))), "(w", k);
      text_.line(str(vector_of(reduction), " e", k, " = ", load, ", c, m);"));
      text_.line(str("for (i64 b = 1; b < ", blocks, "; ++b) e", k, " = ",
                     folding_.combined(reduction, str("e", k), str(load, " + b * ", columns, ", c, m)")),
                     ";"));
      text_.line(
          str("const ", vector_of(reduction), " q", k, " = ", folding_.rounded(reduction, str("e", k)), ";"));
    }
    std::vector<int> roots;
    for (const Store& store : plan_.stores)
      if (store.level == Level::column) roots.push_back(store.item);
    for (int id : end_.closure(roots, {})) end_.write(text_, id, "c", true);
    for (const Store& store : plan_.stores)
      if (store.level == Level::column)
        text_.line(str("ls_store_n_", name(body_[body_.outputs[store.output].value].dtype), "(o",
                       store.output, ", c, t", store.item, ", m);"));
    text_.close();
  }

  const Graph& body_;
  const Plan& plan_;
  Statements main_, end_;
  Folding folding_;
  codegen::Text text_;
  int64_t whole_ = 0;
  bool parallel_ = false;
  std::vector<std::vector<int>> roots_;  // per stage
  std::vector<int> row_items_;
  std::set<int> cached_, written_, fresh_;
};

}  // namespace

std::string kernel_text(const Graph& body, const Plan& plan, const std::string& name) {
  return Nest(body, plan).write(name);
}

}  // namespace lockstep::compiler::cpu
