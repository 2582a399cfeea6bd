// LaneReducer: the sum over lanes of the gradients of one bucket, on the CPU. Each rank adds its own micro-batches, one exchange sends what
// it has to the owners of the rows, and an owner continues the tree. Bits depend on M, L and the gradients, never on ranks or threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/run/lanes.h"
#include "core/device/buffer.h"
#include "core/mesh/group.h"
#include "core/types/shape.h"

namespace lockstep {

// One step: begin, push for each micro-batch of this rank, start, wait, sum for each tensor. The same on every rank of the data group; a
// rank without lanes pushes nothing. Calls out of this order are InternalErrors. Gradients are dense row-major f32 of the given shapes.
//
// Storage: a partial is one array over the whole bucket, laid out by owner, this rank last: for each owner, for each tensor, its rows. What
// goes to one rank is contiguous, so partials are sent from where they are, and the own chunk is read where it is.
class LaneReducer {
 public:
  // Shapes have rank >= 1 and rows on dim 0; sizes may be 0. UserError as LanePlan::check. Memory is taken by the first begin.
  LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, int threads);

  void begin();
  // Adds the gradients of one micro-batch, one pointer per tensor (which may be null where a tensor has no elements). Micro-batches come in
  // order. Returns when the gradients have been read.
  void push(int64_t micro_batch, const std::vector<const void*>& gradients);
  // Sends partials to the owners of their rows. `data` is the group of the plan's ranks. `label` names the exchange. With one rank nothing
  // is sent.
  void start(Group& data, Stream& stream, const std::string& label);
  void wait(Stream& stream);  // PeerError when a peer is lost
  // The sum over all micro-batches of the rows that this rank owns, and for each of these rows the sum of the squares of its elements in
  // f64 (row_sum_of_squares; null: not wanted). May be called again, in any order of tensors.
  void sum(size_t tensor, float* rows_out, double* row_squares);

  struct Rows {
    int64_t first = 0, count = 0;
  };
  Rows owned_rows(size_t tensor) const { return rows(tensor, plan_.rank); }  // of dim 0: the balanced split over the ranks
  const LanePlan& plan() const { return plan_; }
  int64_t bytes() const;       // that the reducer holds after the first begin
  int64_t sent_bytes() const;  // that this rank sends to other ranks in a step

 private:
  struct Tensor {
    int64_t rows = 0, width = 0;  // width: elements of a row
  };
  struct Run {       // elements that are contiguous in a tensor and in a partial
    int64_t at = 0;  // in a partial
    size_t tensor = 0;
    int64_t from = 0;  // in the tensor
    int64_t count = 0;
  };
  struct Source {  // a subtree from some rank, in lane order
    int rank = 0;
    int block = 0;   // index in that rank's blocks
    int merges = 0;  // of partials, after it was pushed
  };
  enum class Phase { idle, adding, flying, summed };

  Rows rows(size_t tensor, int rank) const;
  size_t scratch_bytes() const;
  float* scratch(int part) const;
  float* partial(size_t slot) const { return partials_[slot].as<float>(); }
  void accumulate(const std::vector<const void*>& gradients, const std::vector<float*>& lefts, float* to) const;
  void merge(const std::vector<const float*>& sources, int64_t at, int64_t count, float* between, float* out) const;

  LanePlan plan_;
  int threads_ = 1;
  std::vector<Tensor> tensors_;
  std::vector<Run> runs_;                          // by `at`
  std::vector<int64_t> chunk_count_;               // per owner, in a partial
  std::vector<int64_t> at_;                        // per tensor: this rank's rows, from the start of its chunk
  std::vector<std::vector<int64_t>> received_at_;  // per rank, per block: its place in received_, -1 for this rank's own
  std::vector<Source> sources_;
  int64_t elements_ = 0, own_at_ = 0, received_ = 0, pieces_ = 0;
  size_t slots_ = 0, depth_ = 0, rounds_ = 0;

  Phase phase_ = Phase::idle;
  LaneCounter counter_;
  int64_t next_ = 0;              // micro-batch
  std::vector<Buffer> partials_;  // slot i: the i-th subtree of the counter; the slot above the last one folds the current lane
  Buffer received_data_;
  Buffer scratch_;  // depth_ blocks of temporaries per thread
  std::vector<double> piece_squares_;
  std::vector<std::shared_ptr<Work>> works_;  // after the buffers that they use
};

// The sum of squares of one row, as sum() computes it: blocks of 2048 elements added left to right; in a block, element i is added to
// accumulator i mod 16 in order of i, and the accumulators are added as a tree (j with j + 8, then j + 4, j + 2, j + 1). Squares are exact
// in f64.
double row_sum_of_squares(const float* row, int64_t count);

}  // namespace lockstep
