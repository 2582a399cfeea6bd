// BucketSum: the exact sum over micro-batches of one bucket of gradients, written as instructions. Each rank
// adds its micro-batches in the order of the tree and sends what it cannot add to the owners of the rows; an
// owner adds the rest. The exchange may be flat or inside hosts first, once per step or in a round per
// micro-batch: the tree, and so the bits, are the same.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/words/writer.h"
#include "compiler/reduce/lanes.h"
#include "compiler/reduce/packed_rows.h"

namespace lockstep::compiler {

// How many addends the device's kernels accept at once (Reductions::most_sources, most_lefts).
struct SumLimits {
  size_t sources = SIZE_MAX, lefts = SIZE_MAX;
  std::string device;  // for messages
};

// Facts shared by all buckets of a step.
struct SumPlan {
  LanePlan lanes;
  RowOwners owners;
  bool invariant = true;
  // Data ranks per host, if gradients go inside hosts first; 0: all exchange with all ("seat": a data rank's
  // place on its host).
  int seats = 0;
  SumLimits limits;

  // The dtype that a round sends for gradients of a dtype. Sums that ranks add in transit are fp32.
  DType sent(DType gradients) const { return invariant ? gradients : DType::f32; }
};

// Sets of staging memory that buckets share in turns, also for the second stages of their exchanges.
class BucketSum;
struct SumTurns {
  static constexpr size_t kSets = 2;
  struct Set {
    Span send, receive;
    BucketSum* user = nullptr;
  };
  std::vector<Set> sets = {};
  size_t seam = SIZE_MAX;       // from this bucket on the sets are swapped
  BucketSum* staged = nullptr;  // the bucket whose first stage is in progress

  // Chooses the seam at which both sets together are smallest, if that saves an eighth. The bucket after the
  // seam waits for the one before, which must be small and the smallest candidate. If rounds follow one
  // another, the last bucket and the first one of the next round may share a set, because a forward pass is
  // between them. `bytes`: sizes of the buckets, in their order.
  void share_sets(const std::vector<int64_t>& bytes);
  size_t set_of(size_t bucket) const { return (bucket + (bucket >= seam)) % kSets; }

  // The bucket before `bucket` starts its second stage now; null: no bucket follows.
  void stage(BucketSum* bucket);
};

class BucketSum {
 public:
  virtual ~BucketSum() = default;
  // Call before the first add: where to put the sum of squares of each tensor's rows, in f64.
  void place_row_squares(std::vector<Span> to) { row_squares_ = std::move(to); }
  // Adds the gradients of a slot's micro-batch, one per tensor, in the order of slots of the rank's LanePlan;
  // none for an idle slot. Then come end, wait, and tree_of for each tensor.
  virtual void add(int64_t slot, const std::vector<Span>& gradients) = 0;
  // The same for neighbouring slots from `slot` on, which are ready at the same time.
  virtual void add_all(int64_t slot, const std::vector<std::vector<Span>>& gradients) {
    for (size_t j = 0; j < gradients.size(); ++j) add(slot + static_cast<int64_t>(j), gradients[j]);
  }
  virtual void end() {}  // no more slots
  virtual void wait() = 0;
  // After wait: whether the sums, and the requested squares, are complete. tree_of then returns the place of
  // a sum.
  virtual bool is_whole() const { return false; }
  // The additions and squares that are left for the rows of this rank. Without `out` the sum replaces its
  // first addend.
  SumTrees::Tree tree_of(size_t tensor, Span out) const;

  virtual void complete() {}  // ends the current round
  virtual void advance() {}   // starts the second stage of an exchange, once

 protected:
  BucketSum(ProgramWriter& writer, const SumPlan& plan, std::string label, PackedRows rows)
      : writer_(writer), plan_(plan), label_(std::move(label)), rows_(std::move(rows)) {}
  virtual SumTrees::Tree addends_of(size_t tensor) const = 0;

  ProgramWriter& writer_;
  const SumPlan& plan_;
  std::string label_;
  PackedRows rows_;
  std::vector<Span> row_squares_;
};

// The pieces of a bucket's gradients, laid out by owner.
std::vector<Accumulate::Piece> bucket_pieces(const PackedRows& rows, const std::vector<Span>& gradients);

}  // namespace lockstep::compiler
