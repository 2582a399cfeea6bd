// PackedRows: gradients of a bucket, laid out by the data rank that owns the rows: for each owner, for each
// tensor, its rows. The data for one rank is contiguous, so it is sent without another copy.
#pragma once

#include <utility>
#include <vector>

#include "compiler/reduce/lanes.h"
#include "core/types/dtype.h"
#include "core/types/shape.h"

namespace lockstep::compiler {

class PackedRows {
 public:
  // Shapes have rank >= 1 and rows on dim 0; sizes may be 0. `order`: all data ranks, in the order of their
  // chunks. `rank`: this one. `dtype`: of the gradients, f32 or bf16.
  PackedRows(const std::vector<Shape>& shapes, const RowOwners& owners, const std::vector<int>& order,
             int rank, DType dtype = DType::f32);

  struct Run {       // elements that are contiguous both in a tensor and here
    int64_t at = 0;  // here
    size_t tensor = 0;
    int64_t from = 0;  // in the tensor
    int64_t count = 0;
  };
  const std::vector<Run>& layout() const { return runs_; }  // by `at`
  size_t tensors() const { return tensors_.size(); }
  int64_t width(size_t tensor) const { return tensors_.at(tensor).width; }  // elements of a row
  std::pair<int64_t, int64_t> owned_rows(size_t tensor) const;  // {first, count} of dim 0, this rank's
  int64_t at(size_t tensor) const { return at_.at(tensor); }    // their offset in the rank's chunk
  int64_t elements() const { return elements_; }
  const std::vector<int64_t>& chunks() const { return chunks_; }  // elements, per data rank
  int64_t chunk(int rank) const { return chunks_[rank]; }
  int64_t chunk() const { return chunk(rank_); }
  int64_t chunk_at() const { return chunk_at_; }  // this rank's
  DType dtype() const { return dtype_; }

 private:
  struct Tensor {
    int64_t rows = 0, width = 0;
  };
  RowOwners owners_;
  int rank_;
  DType dtype_;
  std::vector<Tensor> tensors_;
  std::vector<Run> runs_;  // by `at`
  std::vector<int64_t> chunks_;
  std::vector<int64_t> at_;  // per tensor
  int64_t elements_ = 0, chunk_at_ = 0;
};

// 0 .. count - 1, with `own` moved to the end.
std::vector<int> own_last(int count, int own);

}  // namespace lockstep::compiler
