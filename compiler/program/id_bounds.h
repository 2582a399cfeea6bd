// What a step's functions ask of the whole numbers in its batch: rows of a table, classes of logits. A kernel
// does not look at them, so they are looked at on the host, where a batch is filled.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace lockstep::compiler {

// Every element of a batch field lies in [0, count), or is `ignored` where `ignores`.
struct IdBound {
  std::string field;
  int64_t count = 0;
  bool ignores = false;
  int64_t ignored = 0;
  OpId op;                             // that reads them
  SourceLine at;                       // the user's line
  std::string of;                      // "a row of f32[16,8]"
  const char* wider = "table larger";  // what would hold more
};

// Of a traced graph: the fields that embedding, take, index_add, cross_entropy, and gather and scatter along
// a dim, read as they are, or whole in another shape, order or width. What a function computed from a field,
// or a part of one, has no bound.
std::vector<IdBound> id_bounds(const Graph& traced);

// UserError naming the user's line, the field, the element and the way out when a sample of the micro-batch,
// which begins with sample `first` of the step, has an element outside the bound. `shape`: of the
// micro-batch.
void check_ids(const IdBound& bound, DType dtype, const Shape& shape, const void* data, int64_t first);

}  // namespace lockstep::compiler
