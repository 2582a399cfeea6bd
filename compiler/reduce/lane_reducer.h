// LaneReducer: each rank adds its own micro-batches, one exchange per step sends what it has to the owners of
// the rows, and an owner continues the tree. Bits depend on M, L and the gradients, never on ranks or
// threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/reduce/block_exchange.h"
#include "compiler/reduce/gradient_reducer.h"
#include "compiler/reduce/lane_partials.h"

namespace lockstep {

// One step: begin, push for each micro-batch of this rank, start, wait, sum for each tensor. The same on
// every rank of the data group; a rank without lanes pushes nothing. Calls out of this order are
// InternalErrors. Gradients are dense row-major, of the given shapes and dtype.
class LaneReducer : public GradientReducer {
 public:
  // As LanePartials; UserError also where the last sum would have more partials than `reductions` adds.
  // `reductions` is of `device` and outlives the reducer. Without `invariant` (numerics "free") the group's
  // own reduce_scatter adds the ranks: fewer bytes to receive and one buffer, bits that depend on both.
  LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, Device& device, Reductions& reductions,
              bool invariant = true);
  // The same with other owners of the rows than the balanced split over the ranks.
  LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, Device& device, Reductions& reductions,
              bool invariant, const RowOwners& owners, DType dtype = DType::f32);

  void begin() override;
  void push(int64_t micro_batch, const std::vector<const void*>& gradients, Stream& stream);
  // Sends partials to the owners of their rows. `data` is the group of the plan's ranks. `label` names the
  // exchange. With one rank nothing is sent.
  void start(Group& data, Stream& stream, const std::string& label);
  void add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream,
           const std::string& label) override;
  void end(Group& data, Stream& stream, const std::string& label) override;
  void wait(Stream& stream) override;
  void sum(size_t tensor, float* rows_out, double* row_squares, Stream& stream);

  struct Rows {
    int64_t first = 0, count = 0;
  };
  Rows owned_rows(size_t tensor) const;  // of dim 0
  const LanePlan& plan() const { return mine_.plan(); }
  int64_t bytes() const override;
  int64_t sent_bytes() const override;

 private:
  Reductions::Sum addends_of(size_t tensor) const override;
  enum class Phase { idle, adding, flying, summed };

  Device* device_;
  Reductions* reductions_;
  bool invariant_;
  LanePartials mine_;
  std::unique_ptr<BlockExchange> exchange_;  // invariant
  BlockTree tree_;
  int64_t received_ = 0;  // elements
  Phase phase_ = Phase::idle;
  Buffer received_data_;
  std::shared_ptr<Work> work_;  // free numerics; after the buffers that it uses
};

// For reducers: UserError where `sources` partial sums of one gradient are more than `reductions` adds at
// once.
void check_sources(size_t sources, const LanePlan& plan, const Device& device, const Reductions& reductions);

}  // namespace lockstep
