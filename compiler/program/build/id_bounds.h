// Bounds of the whole numbers in a step's batch: rows of a table, classes of logits. Kernels do not check
// them, so the host checks them when a batch is filled.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/ops/id_read.h"

namespace lockstep::compiler {

// A sum, difference or product of a field's elements with one number; the result wraps to `dtype`.
struct IdChange {
  OpId op;
  int64_t by = 0;
  bool first = false;  // the number is the left operand
  DType dtype = DType::i32;
  bool operator==(const IdChange&) const = default;
};

// The elements of a batch field, after the changes, are ids that a function reads by.
struct IdBound {
  std::string field;
  std::vector<IdChange> changes;  // in order
  IdRead read;
};

// Reads of a traced graph: first those that its functions reported, then its nodes embedding, take, index_add
// and cross_entropy.
std::vector<IdRead> id_reads(const Graph& traced, const std::vector<IdRead>& told);

// The fields behind these reads. A field has a bound if it is read as it is, or whole in another shape, order
// or width, or with numbers added or multiplied. Other values computed from a field, or from a part of one,
// have no bound.
std::vector<IdBound> id_bounds(const Graph& traced, const std::vector<IdRead>& reads);

// UserError naming the user's line, the field, the element and the way out if a sample of the micro-batch has
// an element out of bounds. The micro-batch begins with sample `first` of the step. `shape`: of the
// micro-batch.
void check_ids(const IdBound& bound, DType dtype, const Shape& shape, const void* data, int64_t first);

}  // namespace lockstep::compiler
