// BucketSum: the exact sum over micro-batches of one bucket of gradients, written as instructions. Each rank
// adds what it has in the order of the tree, what it cannot add travels to the owners of the rows, and an
// owner adds on. Flat or inside hosts first, once a step or in a round per micro-batch: the same tree, the
// same bits.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/writer.h"
#include "compiler/reduce/lanes.h"
#include "compiler/reduce/packed_rows.h"

namespace lockstep::compiler {

// How many addends the device's kernels take at once (Reductions::most_sources, most_lefts).
struct SumLimits {
  size_t sources = SIZE_MAX, lefts = SIZE_MAX;
  std::string device;  // for messages
};

// What all buckets of a step have in common.
struct SumPlan {
  LanePlan lanes;
  RowOwners owners;
  bool invariant = true;
  int seats = 0;  // data ranks of a host, where gradients go inside hosts first; 0: all exchange with all
  SumLimits limits;

  // What a round sends of gradients of a dtype: what ranks add as it travels is fp32.
  DType sent(DType gradients) const { return invariant ? gradients : DType::f32; }
};

// Buckets that take turns in staging and in the second stages of their exchanges.
class BucketSum;
struct SumTurns {
  static constexpr size_t kSets = 2;
  struct Set {
    Span send, receive;
    BucketSum* user = nullptr;
  };
  std::vector<Set> sets;
  size_t seam = SIZE_MAX;       // from this bucket on the sets change places
  BucketSum* staged = nullptr;  // whose first stage is under way

  // Places the seam where both sets together take least, if that spares an eighth. The bucket behind it waits
  // for the one before, which is the smallest such, and small. Where rounds follow one another, the last
  // bucket and the first one of the next round may share a set: forward lies between them. `bytes`: of the
  // buckets, in their order.
  void share_sets(const std::vector<int64_t>& bytes);
  size_t set_of(size_t bucket) const { return (bucket + (bucket >= seam)) % kSets; }

  // The bucket before `bucket` starts its second stage now; null: nobody comes after it.
  void stage(BucketSum* bucket);
};

class BucketSum {
 public:
  virtual ~BucketSum() = default;
  // Before the first add: where the sum of squares of each tensor's rows is wanted, in f64.
  void place_row_squares(std::vector<Span> to) { row_squares_ = std::move(to); }
  // In the order of slots of the rank's LanePlan: the gradients of a slot's micro-batch, one per tensor; none
  // for an idle slot. Then end, wait, and tree_of for each tensor.
  virtual void add(int64_t slot, const std::vector<Span>& gradients) = 0;
  // Of neighbouring slots from `slot` on, which are ready at the same time.
  virtual void add_all(int64_t slot, const std::vector<std::vector<Span>>& gradients) {
    for (size_t j = 0; j < gradients.size(); ++j) add(slot + static_cast<int64_t>(j), gradients[j]);
  }
  virtual void end() {}  // no more slots
  virtual void wait() = 0;
  // After wait: the sums, and the squares that are wanted, are there. tree_of then says where a sum lies.
  virtual bool is_whole() const { return false; }
  // What is left to add, and to square, for the rows that this rank owns. Without `out` the sum takes the
  // place of its first addend.
  SumTrees::Tree tree_of(size_t tensor, Span out) const;

  virtual void complete() {}  // ends the round under way
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
