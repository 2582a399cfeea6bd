// LaneReducer: the sum over micro-batches of one bucket of gradients. Folds lanes, keeps the rank's binary counter, exchanges chunks, and sums
// what all ranks sent for the rows that this rank owns.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/run/lanes.h"
#include "core/device/buffer.h"
#include "core/mesh/group.h"
#include "core/types/shape.h"

namespace lockstep {

class LaneReducer {
 public:
  // f32 tensors of at least one dim. Rows of dim 0 are owned by ranks in balanced parts.
  LaneReducer(std::vector<Shape> shapes, LanePlan plan, int threads);
  LaneReducer(LaneReducer&&) noexcept;
  ~LaneReducer();

  void begin();  // of a step
  // The gradients of one micro-batch of this rank, dense, one per tensor; micro-batches come in order. They are read before push returns.
  void push(int64_t micro_batch, const std::vector<const void*>& gradients);
  // After the last push: sends each rank its rows of this rank's partial sums. Nothing is sent in a group of one.
  void start(Group& data, Stream& stream, const std::string& label);
  void wait(Stream& stream);
  // After wait: the sum over all lanes of the rows that this rank owns, and per row the sum of squares in double (fixed blocking).
  void sum(size_t tensor, float* rows, double* row_squares);
  std::pair<int64_t, int64_t> owned_rows(size_t tensor) const;  // {first, count}
  int64_t bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
