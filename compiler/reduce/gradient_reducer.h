// GradientReducer: the sum over lanes of the gradients of one bucket, on one device, in the order of the
// tree. How the addends travel is the implementation's choice: LaneReducer sends what a rank has added once
// per step, RoundReducer every micro-batch's gradients.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "compiler/reduce/lanes.h"
#include "core/mesh/group.h"
#include "core/types/shape.h"

namespace lockstep {

// One step: begin, add for each slot of this rank's LanePlan in order, end, wait, sum_of for each tensor. All
// data ranks make the same calls of one reducer after another in the same order; `data` is the group of the
// plan's ranks. Calls out of order are InternalErrors.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  virtual void begin() = 0;  // the first one takes the memory
  // The gradients of a slot's micro-batch, one pointer of the device per tensor (null where a tensor has no
  // elements), dense, of the bucket's dtype; they are read on `stream`. For an idle slot they are not read
  // and may be empty.
  virtual void add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream,
                   const std::string& label) = 0;
  virtual void end(Group& data, Stream& stream, const std::string& label) = 0;  // no more slots
  virtual void wait(Stream& stream) = 0;  // PeerError when a peer is lost
  // What is left to do for the rows that this rank owns: their sum over all micro-batches, and for each of
  // them the sum of the squares of its elements in f64 (null: not wanted). For Reductions::sum. May be asked
  // again, in any order of tensors. Without `rows_out` the sum takes the place of its first addend, in memory
  // of the reducer, until the next begin; it is then asked for once.
  Reductions::Sum sum_of(size_t tensor, float* rows_out, double* row_squares) const;
  virtual int64_t bytes() const = 0;       // that the reducer holds after the first begin
  virtual int64_t sent_bytes() const = 0;  // that this rank sends to other ranks in a step
  virtual int64_t sent_across() const {
    return -1;
  }  // of these, to other hosts; -1: all ranks are sent alike

 protected:
  // Rows, width, addends (f32, in memory of the reducer) and merges of sum_of.
  virtual Reductions::Sum addends_of(size_t tensor) const = 0;
};

// Data ranks by host: host h has data ranks h * ranks .. h * ranks + ranks - 1. The groups are those of this
// rank: its host's ranks, and the ranks at its place of each host; null where nothing is sent.
struct DataNodes {
  int ranks = 0;  // of a host; 0: all ranks exchange with all
  Group* inside = nullptr;
  Group* across = nullptr;
  // Data ranks in the order in which `rank` lays out what it sends: seat by seat, its own last, and of a seat
  // host by host, its own last.
  std::vector<int> order(int data_ranks, int rank) const;
};

// What exchanges in two stages, and the turn that buckets take: the one before starts its second stage when
// the next one has its gradients.
class TwoStages {
 public:
  virtual ~TwoStages() = default;
  virtual void advance(
      Stream& stream) = 0;  // waits for the first stage and starts the second; nothing where that was done
};
class NodeTurn {
 public:
  void take(TwoStages* next, Stream& stream) {
    if (last_ && last_ != next) last_->advance(stream);
    last_ = next;
  }

 private:
  TwoStages* last_ = nullptr;
};

// The reducers of a step: one per bucket, given as the shapes of its tensors (rank >= 1, rows on dim 0, sizes
// may be 0). `dtypes`: of the gradients of each bucket, f32 or bf16; empty: f32. Sums are f32; in rounds
// gradients travel as they are.
struct GradientReducers {
  std::vector<std::unique_ptr<GradientReducer>> buckets;
  int64_t shared_bytes = 0;  // of buffers that buckets take turns in
  int64_t bytes() const;
  int64_t sent_bytes() const;
  int64_t sent_across() const;  // -1: no bucket tells hosts apart
};
// UserError as LanePlan::check, and where one sum would have more partials than `reductions` adds.
// `reductions` is of `device` and outlives the reducers. Without `invariant` (numerics "free") the group's
// own reduce_scatter adds the ranks. With `nodes` of several ranks on several hosts the exchange is first
// inside of a host, then across hosts, with the same bits; in rounds where a lane's micro-batches are on one
// host (micro-batches per lane divide the ranks of a host), else flat.
GradientReducers make_reducers(const std::vector<std::vector<Shape>>& buckets, const LanePlan& plan,
                               const RowOwners& owners, Device& device, Reductions& reductions,
                               bool invariant, const DataNodes& nodes = {},
                               const std::vector<DType>& dtypes = {});

}  // namespace lockstep
