// What a step's functions ask of the whole numbers in its batch: rows of a table, classes of logits. A kernel
// does not look at them, so they are looked at on the host, where a batch is filled.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/ops/id_read.h"

namespace lockstep::compiler {

// A sum, difference or product of a field's elements with one number; `dtype` is what the result wraps to.
struct IdChange {
  OpId op;
  int64_t by = 0;
  bool first = false;  // the number stands before the element
  DType dtype = DType::i32;
  bool operator==(const IdChange&) const = default;
};

// The elements of a batch field, after the changes, are what a function reads by.
struct IdBound {
  std::string field;
  std::vector<IdChange> changes;  // in order
  IdRead read;
};

// Reads of a traced graph: those that its functions told, then its nodes embedding, take, index_add and
// cross_entropy.
std::vector<IdRead> id_reads(const Graph& traced, const std::vector<IdRead>& told);

// Of these reads: the fields that are read as they are, or whole in another shape, order or width, or with
// numbers added or multiplied. What else a function computed from a field, or a part of one, has no bound.
std::vector<IdBound> id_bounds(const Graph& traced, const std::vector<IdRead>& reads);

// UserError naming the user's line, the field, the element and the way out when a sample of the micro-batch,
// which begins with sample `first` of the step, has an element outside the bound. `shape`: of the
// micro-batch.
void check_ids(const IdBound& bound, DType dtype, const Shape& shape, const void* data, int64_t first);

}  // namespace lockstep::compiler
