// RoundReducer: gradients go to the owners of their rows after every micro-batch, so that a rank keeps partial sums of its own rows alone:
// ZeRO 2 and 3. The owner pushes the leaves of a round, in the order of micro-batches, into its fold and counter.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/run/gradient_reducer.h"

namespace lockstep {

class RoundReducer;

// Staging of rounds in flight, shared by the buckets of a step: a bucket packs into one of `sets`, and the bucket that had it before ends
// its round first. Bytes in flight are those of the sets.
class RoundBuffers {
 public:
  static constexpr size_t kSets = 2;
  void fit(int64_t send, int64_t receive);  // elements of f32 that some bucket needs
  void allocate(Device& device);            // once
  int64_t bytes() const;

  struct Set {
    Buffer send, receive;
    RoundReducer* user = nullptr;
  };
  // The next set in turn, free.
  Set& take(Stream& stream);

 private:
  int64_t send_ = 0, receive_ = 0;
  std::vector<Set> sets_;
  size_t next_ = 0;
};

class RoundReducer : public GradientReducer {
 public:
  // As make_reducers; the plan is interleaved. `buffers` is fitted here and outlives the reducer.
  RoundReducer(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners, Device& device, Reductions& reductions,
               bool invariant, RoundBuffers& buffers);

  void begin() override;
  void add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream, const std::string& label) override;
  void end(Group& data, Stream& stream, const std::string& label) override;
  void wait(Stream& stream) override;
  Reductions::Sum sum_of(size_t tensor, float* rows_out, double* row_squares) const override;
  int64_t bytes() const override;
  int64_t sent_bytes() const override;

  void complete(Stream& stream);  // ends the round in flight: waits, and pushes its leaves. Nothing without one

 private:
  struct Tensor {
    int64_t rows = 0, width = 0;  // width: elements of a row
  };
  struct Run {       // elements that are contiguous in a tensor and in the send buffer
    int64_t at = 0;
    size_t tensor = 0;
    int64_t from = 0, count = 0;
  };
  float* partial(size_t slot) const { return partials_[slot].as<float>(); }
  // Leaves of consecutive micro-batches, this rank's rows of each, in order: one pass over what is held and them.
  void push(const std::vector<const float*>& leaves, Stream& stream);
  size_t depth_after(int64_t leaves, LaneCounter& counter, int64_t& added) const;  // what is held then

  LanePlan plan_;
  RowOwners owners_;
  Device* device_;
  Reductions* reductions_;
  bool invariant_;
  RoundBuffers* buffers_;
  std::vector<Tensor> tensors_;
  std::vector<Run> runs_;             // by `at`
  std::vector<int64_t> chunk_count_;  // per owner
  std::vector<int64_t> at_;           // per tensor: this rank's rows, from the start of its chunk
  int64_t elements_ = 0, own_at_ = 0;
  size_t slots_ = 1, most_leaves_ = 1;  // leaves that one pass adds

  LaneCounter counter_;
  bool adding_ = false, summed_ = false;
  int64_t next_slot_ = 0;
  int64_t added_ = 0;             // leaves, in free numerics rounds
  std::vector<Buffer> partials_;  // as in LaneReducer, of this rank's rows alone
  int64_t flying_ = -1;           // the slot whose round is under way
  RoundBuffers::Set* set_ = nullptr;
  std::shared_ptr<Work> work_;
};

}  // namespace lockstep
