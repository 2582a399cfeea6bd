// GradientReducer: the sum over lanes of the gradients of one bucket, on one device, in the order of the tree. How the addends travel is
// the implementation's choice: LaneReducer sends what a rank has added once per step, RoundReducer every micro-batch's gradients.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/run/lanes.h"
#include "core/mesh/group.h"
#include "core/types/shape.h"

namespace lockstep {

// One step: begin, add for each slot of this rank's LanePlan in order, end, wait, sum_of for each tensor. All data ranks make the same
// calls of one reducer after another in the same order; `data` is the group of the plan's ranks. Calls out of order are InternalErrors.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  virtual void begin() = 0;  // the first one takes the memory
  // The gradients of a slot's micro-batch, one pointer of the device per tensor (null where a tensor has no elements), dense f32; they are
  // read on `stream`. For an idle slot they are not read and may be empty.
  virtual void add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream, const std::string& label) = 0;
  virtual void end(Group& data, Stream& stream, const std::string& label) = 0;  // no more slots
  virtual void wait(Stream& stream) = 0;                                       // PeerError when a peer is lost
  // What is left to do for the rows that this rank owns: their sum over all micro-batches, and for each of them the sum of the squares of
  // its elements in f64 (null: not wanted). For Reductions::sum. May be asked again, in any order of tensors.
  virtual Reductions::Sum sum_of(size_t tensor, float* rows_out, double* row_squares) const = 0;
  virtual int64_t bytes() const = 0;       // that the reducer holds after the first begin
  virtual int64_t sent_bytes() const = 0;  // that this rank sends to other ranks in a step
};

// The reducers of a step: one per bucket, given as the shapes of its tensors (rank >= 1, rows on dim 0, sizes may be 0).
struct GradientReducers {
  std::vector<std::unique_ptr<GradientReducer>> buckets;
  int64_t shared_bytes = 0;  // of buffers that buckets take turns in
  int64_t bytes() const;
  int64_t sent_bytes() const;
};
// UserError as LanePlan::check, and where one sum would have more partials than `reductions` adds. `reductions` is of `device` and outlives
// the reducers. Without `invariant` (numerics "free") the group's own reduce_scatter adds the ranks.
GradientReducers make_reducers(const std::vector<std::vector<Shape>>& buckets, const LanePlan& plan, const RowOwners& owners, Device& device,
                               Reductions& reductions, bool invariant);

}  // namespace lockstep
