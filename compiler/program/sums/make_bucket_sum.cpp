// Chooses among the five implementations of a bucket's sum, which all add in one order.
#include "compiler/program/sums/make_bucket_sum.h"

#include <numeric>

#include "compiler/program/sums/parts.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
// The order of owners' chunks in the bucket as the rank sends it. A reduce_scatter takes the chunks in the
// order of ranks. An all_to_all does not send this rank's own chunk, which is therefore at the end. By hosts:
// seat by seat (a data rank's place on its host), and for each seat host by host, own chunks last.
std::vector<int> chunk_order(const SumPlan& plan) {
  const LanePlan& lanes = plan.lanes;
  if (!plan.invariant) {
    std::vector<int> order(lanes.ranks);
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  if (!plan.seats) return own_last(lanes.ranks, lanes.rank);
  std::vector<int> out;
  for (int seat : own_last(plan.seats, lanes.rank % plan.seats))
    for (int host : own_last(lanes.ranks / plan.seats, lanes.rank / plan.seats))
      out.push_back(host * plan.seats + seat);
  return out;
}

}  // namespace

std::unique_ptr<BucketSum> make_bucket_sum(ProgramWriter& writer, const SumPlan& plan, SumTurns& turns,
                                           size_t bucket, const std::vector<Shape>& shapes, DType dtype) {
  PackedRows rows(shapes, plan.owners, chunk_order(plan), plan.lanes.rank, dtype);
  const std::string label = str("exchange ", bucket);
  if (plan.lanes.is_one()) return of_one_micro_batch(writer, plan, label, std::move(rows));
  if (plan.lanes.order == LaneOrder::interleaved)
    return in_rounds(writer, plan, turns, bucket, label, std::move(rows));
  return once_per_step(writer, plan, turns, label, std::move(rows));
}

}  // namespace lockstep::compiler
