// RoundReducer: gradients go to the owners of their rows after every micro-batch, so that a rank keeps
// partial sums of its own rows alone: ZeRO 2 and 3. The owner pushes the leaves of a round, in the order of
// micro-batches, into its fold and counter.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/reduce/gradient_reducer.h"
#include "compiler/reduce/lane_fold.h"
#include "compiler/reduce/packed_rows.h"

namespace lockstep {

// What uses a set of buffers for a round.
class Round {
 public:
  virtual ~Round() = default;
  virtual void complete(
      Stream& stream) = 0;  // ends the round in flight: waits, and adds its leaves. Nothing without one
};

// Staging of rounds in flight, shared by the buckets of a step: a bucket packs into one of `sets`, and the
// bucket that had it before ends its round first. Bytes in flight are those of the sets.
class RoundBuffers {
 public:
  static constexpr size_t kSets = 2;
  void fit(int64_t send, int64_t receive);  // bytes that some bucket needs
  void allocate(Device& device);            // once
  int64_t bytes() const;

  struct Set {
    Buffer send, receive;
    Round* user = nullptr;
  };
  // The next set in turn, free.
  Set& take(Stream& stream);

 private:
  int64_t send_ = 0, receive_ = 0;
  std::vector<Set> sets_;
  size_t next_ = 0;
};

class RoundReducer : public GradientReducer, public Round {
 public:
  // As make_reducers; the plan is interleaved. `buffers` is fitted here and outlives the reducer. What
  // travels is a micro-batch's gradients as they are (`dtype`); in free numerics they are added on the way,
  // in f32.
  RoundReducer(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners,
               Device& device, Reductions& reductions, bool invariant, RoundBuffers& buffers,
               DType dtype = DType::f32);

  void begin() override;
  void add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream,
           const std::string& label) override;
  void end(Group& data, Stream& stream, const std::string& label) override;
  void wait(Stream& stream) override;
  int64_t bytes() const override;
  int64_t sent_bytes() const override;

  void complete(Stream& stream) override;

 private:
  Reductions::Sum addends_of(size_t tensor) const override;
  int64_t size() const {
    return static_cast<int64_t>(size_of(invariant_ ? rows_.dtype() : DType::f32));
  }  // of an element that travels

  LanePlan plan_;
  PackedRows rows_;
  Device* device_;
  Reductions* reductions_;
  bool invariant_;
  RoundBuffers* buffers_;
  LaneFold fold_;  // of this rank's rows
  bool adding_ = false, summed_ = false;
  int64_t next_slot_ = 0;
  int64_t flying_ = -1;  // the slot whose round is under way
  RoundBuffers::Set* set_ = nullptr;
  std::shared_ptr<Work> work_;
};

}  // namespace lockstep
