// LaneReducer: each rank adds its own micro-batches, one exchange per step sends what it has to the owners of the rows, and an owner continues
// the tree. Bits depend on M, L and the gradients, never on ranks or threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/run/gradient_reducer.h"

namespace lockstep {

// One step: begin, push for each micro-batch of this rank, start, wait, sum for each tensor. The same on every rank of the data group; a
// rank without lanes pushes nothing. Calls out of this order are InternalErrors. Gradients are dense row-major f32 of the given shapes.
//
// Storage: a partial is one array over the whole bucket, laid out by owner, this rank last: for each owner, for each tensor, its rows. What
// goes to one rank is contiguous, so partials are sent from where they are, and the own chunk is read where it is.
class LaneReducer : public GradientReducer {
 public:
  // Shapes have rank >= 1 and rows on dim 0; sizes may be 0. UserError as LanePlan::check, and where one sum would have more
  // partials than `reductions` adds. Memory of `device` is taken by the first begin.
  // `reductions` is of the same device and outlives the reducer. Without `invariant` (numerics "free") a rank adds all its micro-batches from
  // left to right, and the group's own reduce_scatter adds the ranks: fewer bytes to receive and one buffer, bits that depend on both.
  LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, Device& device, Reductions& reductions, bool invariant = true);
  // The same with other owners of the rows than the balanced split over the ranks.
  LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, Device& device, Reductions& reductions, bool invariant,
              const RowOwners& owners);

  void begin() override;
  // Adds the gradients of one micro-batch, one pointer per tensor (which may be null where a tensor has no elements). Micro-batches come in
  // order. The gradients are read on `stream`.
  void push(int64_t micro_batch, const std::vector<const void*>& gradients, Stream& stream);
  // Sends partials to the owners of their rows. `data` is the group of the plan's ranks. `label` names the exchange. With one rank nothing
  // is sent.
  void start(Group& data, Stream& stream, const std::string& label);
  void add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream, const std::string& label) override;
  void end(Group& data, Stream& stream, const std::string& label) override;
  void wait(Stream& stream) override;
  Reductions::Sum sum_of(size_t tensor, float* rows_out, double* row_squares) const override;
  void sum(size_t tensor, float* rows_out, double* row_squares, Stream& stream);

  struct Rows {
    int64_t first = 0, count = 0;
  };
  Rows owned_rows(size_t tensor) const { return rows(tensor, plan_.rank); }  // of dim 0
  const LanePlan& plan() const { return plan_; }
  int64_t bytes() const override;
  int64_t sent_bytes() const override;

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

  void check_limits(size_t lefts) const;
  Rows rows(size_t tensor, int rank) const;
  float* partial(size_t slot) const { return partials_[slot].as<float>(); }
  LanePlan plan_;
  RowOwners owners_;
  Device* device_;
  Reductions* reductions_;
  bool invariant_ = true;
  std::vector<Tensor> tensors_;
  std::vector<Run> runs_;                          // by `at`
  std::vector<int64_t> chunk_count_;               // per owner, in a partial
  std::vector<int64_t> at_;                        // per tensor: this rank's rows, from the start of its chunk
  std::vector<std::vector<int64_t>> received_at_;  // per rank, per block: its place in received_, -1 for this rank's own
  std::vector<Source> sources_;
  int64_t elements_ = 0, own_at_ = 0, received_ = 0;
  size_t slots_ = 0, rounds_ = 0;

  Phase phase_ = Phase::idle;
  LaneCounter counter_;
  int64_t next_ = 0;              // micro-batch
  std::vector<Buffer> partials_;  // slot i: the i-th subtree of the counter; the slot above the last one folds the current lane
  Buffer received_data_;
  std::vector<std::shared_ptr<Work>> works_;  // after the buffers that they use
};

}  // namespace lockstep
