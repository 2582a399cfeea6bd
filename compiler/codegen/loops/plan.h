// The plan of a kernel, before it is text: a space of rows and columns, items (values at an index),
// reductions and stores.
//
// Element (r, c) of the space is evaluated for every output and reduction of the body. Views become part of
// the indices of the values that they view. Row reductions run over c, column reductions over r. The order of
// their sums depends only on their own length (see loops.cpp), so it is the same in every kernel.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/codegen/loops/index.h"
#include "core/ir/graph.h"
#include "core/types/number.h"

namespace lockstep::compiler::codegen {

enum class ItemKind {
  load,
  constant,
  iota,
  random,
  pointwise,
  select,
  row_number,
  row_result,
  column_result
};

struct Guard {
  Expr at;
  int64_t lo = 0, hi = 0;  // holds where lo <= at < hi
};

// Cost from which a value is expensive ("dear"): never computed twice on purpose.
inline constexpr int kDear = 12;

// One value at one index; ids of items grow from operands to users.
struct Item {
  ItemKind kind = ItemKind::load;
  DType dtype = DType::f32;
  Expr index;      // load: element of the input; iota: the number; random: the element; row_number: unused
  int input = -1;  // load: position among the body's inputs
  const Node* node = nullptr;  // pointwise, random
  Number value;                // constant: as its dtype has it
  int64_t bound = 0;           // row_number: numbers are clamped to [0, bound)
  std::vector<int> args;       // select: the first if all guards hold, else the second
  std::vector<Guard> guards;
  int reduction = -1;
  int stage = 0;        // row-reduction stages that must be complete before it
  bool varies = false;  // over the columns
  int cost = 1;         // about the number of vector instructions
};

struct Reduction {
  const Node* node = nullptr;
  bool column = false;
  int item = -1;  // what is reduced
  int stage = 0;
};

enum class Level { element, row, column };
struct Store {
  int output = 0;  // position among the body's outputs
  int item = -1;   // of items (element, row) or combine_items (column)
  Level level = Level::element;
  Expr index;
};

struct Plan {
  int64_t rows = 1, columns = 1;
  // `combine_indexer` has only columns: it is for the code after the column reductions.
  std::shared_ptr<Indexer> indexer, combine_indexer;
  std::vector<Item> items, combine_items;
  std::vector<Reduction> reductions;
  std::vector<Store> stores;
  int stages = 1;  // loops over a row; stores and column sums are in the last
  bool row_reductions = false, column_reductions = false;
  int irregular = 0;  // loads gathered lane by lane
  double work = 0;    // sum of cost times executions
  double dear = 0;    // the part of it in items of cost kDear or more
};

}  // namespace lockstep::compiler::codegen
