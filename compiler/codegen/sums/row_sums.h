// Sums rows of equal ids, and writes rows to their places in a table, on the host. Sparse gradients are
// summed and applied with these.
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

  // {id, place}, sorted by id and then by place.
  struct Entry {
    int32_t id = 0, place = 0;
  };
  std::vector<Entry> sorted_, other_;
  std::vector<int64_t> first_;  // per distinct id: its first entry; then the end
};

// See Reductions::take_rows.
void take_rows(const Reductions::Taken& taken, int threads);

// See Reductions::put_rows.
void put_rows(const Reductions::Placed& placed, int threads);

}  // namespace lockstep::compiler
