// Adds the gradients of a rank's own micro-batches.
#include "compiler/reduce/lane_partials.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

LanePartials::LanePartials(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners,
                           const std::vector<int>& order, Device& device, Reductions& reductions,
                           bool invariant, DType dtype)
    : plan_(plan),
      rows_(shapes, owners, order, plan.rank, dtype),
      device_(&device),
      reductions_(&reductions),
      invariant_(invariant) {
  plan_.check();
  LS_CHECK(plan_.order == LaneOrder::contiguous && order.size() == static_cast<size_t>(plan_.ranks),
           order.size(), " chunks for ", plan_.ranks, " ranks");
  if (invariant_)
    count_slots();
  else
    slots_ = 1;
}

// The slots that this rank's lanes need, at their fullest.
void LanePartials::count_slots() {
  auto [first_lane, lanes] = plan_.lane_range(plan_.rank);
  LaneCounter counter;
  size_t lefts = 0;  // of one addition, at most
  for (int64_t lane = first_lane; lane < first_lane + lanes; ++lane) {
    const size_t fold = counter.blocks().size() + 1;
    lefts = std::max(lefts, static_cast<size_t>(counter.push({lane, 1})) + (plan_.per_lane() > 1 ? 1 : 0));
    slots_ = std::max(slots_, plan_.per_lane() > 1 ? fold : counter.blocks().size());
  }
  if (lefts > reductions_->most_lefts())
    throw UserError(str("batch.lanes ", plan_.lanes, " on ", plan_.ranks, " data ranks adds ", lefts,
                        " partial sums to one gradient at once, and ", device_->describe(), " adds at most ",
                        reductions_->most_lefts(), "; set batch.lanes to a smaller divisor of the ",
                        plan_.micro_batches,
                        " micro-batches, use more ranks, or set train.numerics to \"free\""));
}

void LanePartials::begin() {
  if (arrays_.empty())
    for (size_t s = 0; s < slots_; ++s)
      arrays_.emplace_back(rows_.elements() * sizeof(float), device_->memory());
  counter_.clear();
  next_ = plan_.micro_batch_range(plan_.rank).first;
}

bool LanePartials::complete() const {
  auto [first, count] = plan_.micro_batch_range(plan_.rank);
  return next_ == first + count;
}

void LanePartials::push(int64_t micro_batch, const std::vector<const void*>& gradients, Stream& stream) {
  auto [first, count] = plan_.micro_batch_range(plan_.rank);
  LS_CHECK(micro_batch == next_ && micro_batch < first + count, "micro-batch ", micro_batch,
           " was pushed where ", next_, " of ", first, " to ", first + count, " is due");
  const auto runs = rows_.runs(gradients);
  const int64_t lane = micro_batch / plan_.per_lane(), in_lane = micro_batch % plan_.per_lane();
  size_t slot = counter_.blocks().size();
  // The partial sums that the gradient is added to, in the order of the additions; the last one becomes the
  // sum.
  std::vector<const float*> lefts;
  if (!invariant_) {
    slot = 0;
    if (micro_batch > first) lefts.push_back(block(0));
  } else {
    if (in_lane > 0) lefts.push_back(block(slot));
    if (in_lane == plan_.per_lane() - 1) {
      const int merges = counter_.push({lane, 1});
      for (int i = 0; i < merges; ++i) lefts.push_back(block(--slot));
    }
  }
  reductions_->accumulate(runs, lefts, block(slot), stream);
  ++next_;
}

}  // namespace lockstep
