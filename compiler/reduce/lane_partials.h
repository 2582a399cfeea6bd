// LanePartials: what a rank adds of its own micro-batches: the maximal subtrees of its lanes, each one array
// over the whole bucket.
#pragma once

#include <vector>

#include "compiler/reduce/packed_rows.h"

namespace lockstep {

class LanePartials {
 public:
  // Shapes have rank >= 1 and rows on dim 0; sizes may be 0. `order`: the data ranks in the order of their
  // chunks. Without `invariant` there is one array, to which all micro-batches are added from left to right.
  // UserError as LanePlan::check, and where one addition would have more partials than `reductions` adds.
  // Memory of `device` is taken by the first begin.
  LanePartials(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners,
               const std::vector<int>& order, Device& device, Reductions& reductions, bool invariant,
               DType dtype = DType::f32);

  void begin();
  // Micro-batches come in order; one pointer per tensor, null where it has no elements. Read on `stream`.
  // InternalError out of order.
  void push(int64_t micro_batch, const std::vector<const void*>& gradients, Stream& stream);
  bool complete() const;                  // all micro-batches of the rank were pushed
  int64_t next() const { return next_; }  // the micro-batch that is due

  const LanePlan& plan() const { return plan_; }
  const PackedRows& rows() const { return rows_; }
  float* block(size_t b) const {
    return arrays_[b].as<float>();
  }  // the b-th of plan().blocks(rank), or the one array
  int64_t bytes() const {
    return static_cast<int64_t>(slots_) * rows_.elements() * static_cast<int64_t>(sizeof(float));
  }

 private:
  void count_slots();

  LanePlan plan_;
  PackedRows rows_;
  Device* device_;
  Reductions* reductions_;
  bool invariant_;
  size_t slots_ = 0;

  LaneCounter counter_;
  int64_t next_ = 0;  // micro-batch
  std::vector<Buffer>
      arrays_;  // slot i: the i-th subtree of the counter; the slot above the last one folds the current lane
};

}  // namespace lockstep
