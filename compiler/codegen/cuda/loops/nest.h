// The kernels of a planned body as CUDA C++: the parts shared by pointwise, row and column kernels.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/loops/chunk_statements.h"
#include "compiler/codegen/cuda/loops/form.h"
#include "compiler/codegen/loops/space.h"
#include "core/base/text.h"

namespace lockstep::compiler::cuda {

struct Function {
  std::string name;
  int64_t grid = 0;
  int block = 0;
  int shared = 0;  // bytes of dynamic shared memory
};
struct KernelText {
  std::string text;
  std::vector<Function> functions;  // in execution order; empty if there is nothing to do
  std::vector<int> aligned;         // per argument: bytes of which its address must be a multiple
  size_t workspace = 0;
};

// Additions to a kernel whose runs may run together (generate_kernel): the parameter's type, the parameter,
// and the statements that move the pointers to a run's data. Empty otherwise.
struct RunParameter {
  std::string type, parameter, moves;
};
RunParameter run_parameter(const std::string& kernel, const std::vector<std::string>& pointers,
                           const std::string& workspace, int64_t together);

// "int" if it can hold every index of the plan, else "long".
std::string index_type(const Graph& body, const codegen::Plan& plan);

// Names in the text: r is the row, `lane` the lane of a team, k the step of a lane, q its chunk, j an element
// of a chunk. Reduction k has the sums s<k> (of a lane) and q<k> (of the row); for columns, e<k> and q<k>.
class Nest {
 public:
  Nest(const Graph& body, const codegen::Plan& plan, std::string name, int64_t together)
      : body_(body),
        plan_(plan),
        name_(std::move(name)),
        together_(together),
        number_(index_type(body, plan)),
        dialect_(number_),
        folding_(body, dialect_),
        form_(form_of(plan.rows, plan.columns, together)),
        of_columns_(find_columns()) {}
  KernelText write();

 private:
  DType dtype_of_argument(size_t i) const {
    return i < body_.inputs.size() ? body_[body_.inputs[i].value].dtype
                                   : output_dtype(static_cast<int>(i - body_.inputs.size()));
  }
  DType output_dtype(int output) const { return body_[body_.outputs[output].value].dtype; }
  DType type_of(const codegen::Reduction& reduction) const { return folding_.dtype(reduction); }
  std::string type(const codegen::Reduction& reduction) const { return folding_.type(reduction); }
  const codegen::Reduction& reduction(size_t k) const { return plan_.reductions[k]; }
  bool position(const codegen::Reduction& reduction) const {
    return codegen::finds_position(*reduction.node);
  }
  std::string largest(const codegen::Reduction& reduction) const {
    return reduction.node->op == ops::argmax ? "true" : "false";
  }
  void needs_aligned(size_t argument, int bytes) {
    out_.aligned[argument] = std::max(out_.aligned[argument], std::min(bytes, 16));
  }
  // The elements of one chunk: loads, values, `inside` at each element, stores of the element level.
  template <class F>
  void chunk(const ChunkStatements& statements, const std::vector<int>& ids, bool stores, const F& inside) {
    std::vector<int> varying;
    for (int id : ids)
      if (statements.item(id).varies) varying.push_back(id);
    note_loads(statements, varying);
    const int width = statements.width();
    statements.before_elements(text_, varying);
    auto each_store = [&](const auto& act) {
      if (!stores) return;
      for (const codegen::Store& store : plan_.stores)
        if (store.level == codegen::Level::element) act(store, output_dtype(store.output));
    };
    each_store([&](const codegen::Store& store, DType dtype) {
      text_.line(str("ls_raw<", size_of(dtype), ", ", width, "> y", store.output, " = ls_raw<",
                     size_of(dtype), ", ", width, ">::zeros();"));
      if (before_rounding(store, dtype, width) >= 0)
        text_.line(str("float h", store.output, "[", width, "];"));
    });
    text_.open(str("LS_EACH(", width, ") {"));
    text_.line(str("const ", number_, " c = c0 + j; (void)c;"));
    const auto needed = computed_.empty() ? varying : statements.closure(roots_here_, {});
    for (int id : needed)
      if (computed_.count(id))
        text_.line(str("const ", dialect_.type(statements.item(id).dtype), " t", id, " = v", id, "[k][j];"));
    for (int id : varying) {
      statements.element(text_, id);
      if (kept_values_.count(id)) text_.line(str("v", id, "[k][j] = t", id, ";"));
    }
    each_store([&](const codegen::Store& store, DType dtype) {
      if (const int exact = before_rounding(store, dtype, width); exact >= 0)
        text_.line(str("h", store.output, "[j] = t", exact, ";"));
      else
        text_.line(str("y", store.output, ".set(j, ls_into_", name(dtype), "(t", store.item, "));"));
    });
    inside();
    text_.close();
    each_store([&](const codegen::Store& store, DType dtype) {
      if (before_rounding(store, dtype, width) >= 0) text_.line(packed(store, dtype, width));
      text_.line(
          str("y", store.output, ".store(o", store.output, ", ", statements.at(store.index, "c0"), ");"));
      needs_aligned(body_.inputs.size() + static_cast<size_t>(store.output),
                    static_cast<int>(size_of(dtype)) * width);
    });
  }

  std::string functor(const codegen::Reduction& reduction) const {
    return CudaDialect::functor(folding_.fold(reduction));
  }
  void open_function(const std::string& name, int64_t grid, int block, int resident = 1, int shared = 0);
  // The item whose value is rounded to a stored bf16, f16 or float8, if a word of neighbours can be rounded
  // at once. -1: each element is rounded on its own.
  int before_rounding(const codegen::Store& store, DType dtype, int width) const;
  std::string packed(const codegen::Store& store, DType dtype, int width) const;
  void close_function();
  // Raises the required alignment of the arguments that chunks load from.
  void note_loads(const ChunkStatements& statements, const std::vector<int>& ids);
  void flat_kernel();
  // Assigns places in the workspace to the column sums: [row_blocks, columns] each.
  void place_sums();
  std::string sums(size_t k) const;
  // The items that each stage's loop computes.
  std::vector<std::vector<int>> roots(const ChunkStatements& statements) const;

  // nest_rows.cpp
  void row_kernel(bool column_sums);
  void open_column_sums(const ChunkStatements& statements, const std::vector<size_t>& columns);
  void stage_rows(const ChunkStatements& statements, bool column_sums, bool wide, int block);
  void one_row(ChunkStatements& statements);
  // Chunks that several stages read stay in registers, in their memory layout, while there are registers for
  // them.
  void keep_chunks(ChunkStatements& statements, const std::vector<std::vector<int>>& stage_roots);
  // Values that are expensive to compute again, such as random numbers, stay in registers, too.
  void keep_values(const ChunkStatements& statements, const std::vector<std::vector<int>>& stage_roots,
                   int left);
  void one_stage(ChunkStatements& statements, int stage, const std::vector<int>& stage_roots,
                 std::set<int>& loaded);
  void stage_loop(ChunkStatements& statements, int stage, const std::vector<size_t>& rows,
                  std::set<int>& loaded);
  void stage_chunk(ChunkStatements& statements, const std::vector<int>& ids, bool last,
                   const std::vector<size_t>& rows);
  void accumulate(const std::vector<size_t>& rows, bool last);
  // Adds the sums of lanes, then those of warps.
  void meet(const std::vector<size_t>& rows);

  // nest_stage.cpp: rows are copied into shared memory while earlier rows are computed.
  // Chooses the chunks, for `threads` that process a row in `steps`: up to `most` rows ahead within `budget`
  // bytes.
  void plan_stage(const ChunkStatements& statements, const std::vector<int>& ids, int threads, int steps,
                  int most, int64_t budget);
  std::string staged_type(int id) const;
  std::string staged_place(int id, const std::string& step) const;
  // Copies all chunks of step k of row `next`, where r, q and c0 are those of the chunk.
  void fetch_chunks(const ChunkStatements& statements);
  // Copies the first rows: `first`, first + `stride`, ...; all are below `limit`. A tile's threads already
  // have their columns c0.
  void fetch_first(const ChunkStatements& statements, const std::string& first, const std::string& stride,
                   bool tile);
  void take_chunks(ChunkStatements& statements, const std::vector<int>& ids,
                   const std::string& step);  // x<id>
  bool staged(int id) const { return staged_.count(id) > 0; }

  // nest_hoist.cpp: values that depend only on the column, computed before the loop over the rows.
  std::vector<bool> find_columns() const;  // per item: whether it depends only on the column
  // Whether the roots need arithmetic that depends only on the column.
  bool computes_columns(const ChunkStatements& statements, const std::vector<int>& roots) const;
  // Chooses such values for a thread that has `steps` chunks; they are declared as v<id>[k][j].
  void hoist_columns(const ChunkStatements& statements, const std::vector<int>& roots, int steps);
  void write_hoisted(const ChunkStatements& statements);  // of step k, whose first column is c0

  // nest_one_hot.cpp: where(column == number of the row, x, 0) is x in one column.
  // The item that is the column's number; -1: another form.
  int one_hot(const ChunkStatements& statements, int id) const;
  // Whether its sum over a row is exactly one element.
  bool takes(const ChunkStatements& statements, const codegen::Reduction& reduction) const;
  void take(const ChunkStatements& statements, size_t k);  // as q<k>

  // nest_columns.cpp
  // Teams are added in order; the block's sums are written to the workspace.
  void fold_teams(const std::vector<size_t>& columns, int teams);
  void tile_kernel();
  void combine_kernel();

  const Graph& body_;
  const codegen::Plan& plan_;
  std::string name_;
  int64_t together_;
  std::string number_;
  CudaDialect dialect_;
  codegen::Folding folding_;
  Form form_;
  std::vector<bool> of_columns_;
  codegen::Text text_;
  KernelText out_;
  std::vector<size_t> sums_at_;
  std::set<int> kept_;                    // chunks in registers
  std::set<int> kept_values_, computed_;  // values in registers; those of earlier stages
  std::set<int> hoisted_;                 // values of columns in registers
  std::vector<int> roots_here_;           // of the stage being written
  bool guarded_ = false, unrolled_ = true;
  std::map<int, int64_t> staged_;  // item: where its chunks are in shared memory
  int depth_ = 0, staged_threads_ = 0, staged_steps_ = 0, staged_bytes_ = 0, last_loop_ = 0;
};

KernelText kernel_text(const Graph& body, const codegen::Plan& plan, const std::string& name,
                       int64_t together);

}  // namespace lockstep::compiler::cuda
