// Rows of equal ids as one row each, and rows written to their places in a table: what sparse gradients are
// summed and applied by. On the host.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/codegen/target.h"

namespace lockstep::compiler {

// See Reductions::sum_rows.
class RowSums {
 public:
  void sum(const Reductions::Rows& rows, int threads);

 private:
  void sort(const Reductions::Rows& rows);

  // {id, place}, by id and then by place.
  struct Entry {
    int32_t id = 0, place = 0;
  };
  std::vector<Entry> sorted_, other_;
  std::vector<int64_t> first_;  // per distinct id: its first entry; and the end
};

// See Reductions::take_rows.
void take_rows(const Reductions::Taken& taken, int threads);

// See Reductions::put_rows.
void put_rows(const Reductions::Placed& placed, int threads);

}  // namespace lockstep::compiler
