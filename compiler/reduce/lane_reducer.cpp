// Partials, the exchange, and the last additions.
#include "compiler/reduce/lane_reducer.h"

#include <numeric>

#include "core/base/error.h"

namespace lockstep {

namespace {
// In free numerics a reduce_scatter takes the chunks in rank order; an exchange has this rank's own chunk at
// the end.
std::vector<int> order_of(const LanePlan& plan, bool invariant) {
  if (invariant) return own_last(plan.ranks, plan.rank);
  std::vector<int> order(plan.ranks);
  std::iota(order.begin(), order.end(), 0);
  return order;
}
}  // namespace

void check_sources(size_t sources, const LanePlan& plan, const Device& device, const Reductions& reductions) {
  const size_t most = reductions.most_sources();
  if (sources <= most) return;
  throw UserError(str("batch.lanes ", plan.lanes, " on ", plan.ranks, " data ranks leaves ", sources,
                      " partial sums of a gradient for one rank to add, and ", device.describe(),
                      " adds at most ", most, "; set batch.lanes to at most ", most, " (a divisor of the ",
                      plan.micro_batches,
                      " micro-batches), use fewer ranks, or set train.numerics to \"free\""));
}

LaneReducer::LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, Device& device,
                         Reductions& reductions, bool invariant)
    : LaneReducer(shapes, plan, device, reductions, invariant, RowOwners::alone(plan.ranks)) {}

LaneReducer::LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, Device& device,
                         Reductions& reductions, bool invariant, const RowOwners& owners, DType dtype)
    : device_(&device),
      reductions_(&reductions),
      invariant_(invariant),
      mine_(shapes, plan, owners, order_of(plan, invariant), device, reductions, invariant, dtype) {
  if (!invariant_) {
    if (plan.ranks > 1) received_ = mine_.rows().chunk();
    return;
  }
  std::vector<std::vector<LaneBlock>> blocks;
  for (int r = 0; r < plan.ranks; ++r) blocks.push_back(plan.blocks(r));
  tree_ = trees_over(blocks, true)[0];
  check_sources(tree_.sources.size(), plan, device, reductions);
  exchange_ = std::make_unique<BlockExchange>(std::move(blocks), mine_.rows().chunks(), plan.rank);
  received_ = exchange_->received();
}

LaneReducer::Rows LaneReducer::owned_rows(size_t tensor) const {
  auto [first, count] = mine_.rows().owned_rows(tensor);
  return {first, count};
}

int64_t LaneReducer::bytes() const { return mine_.bytes() + received_ * static_cast<int64_t>(sizeof(float)); }

int64_t LaneReducer::sent_bytes() const {
  const int64_t elements = invariant_ ? exchange_->sent() : mine_.rows().elements() - mine_.rows().chunk();
  return elements * static_cast<int64_t>(sizeof(float));
}

void LaneReducer::begin() {
  LS_CHECK(phase_ != Phase::flying, "the exchange of the last step was not waited for");
  mine_.begin();
  if (phase_ == Phase::idle) received_data_ = Buffer(received_ * sizeof(float), device_->memory());
  phase_ = Phase::adding;
}

void LaneReducer::push(int64_t micro_batch, const std::vector<const void*>& gradients, Stream& stream) {
  LS_CHECK(phase_ == Phase::adding, "a gradient outside a step");
  mine_.push(micro_batch, gradients, stream);
}

void LaneReducer::add(int64_t slot, const std::vector<const void*>& gradients, Group&, Stream& stream,
                      const std::string&) {
  push(plan().micro_batch(plan().rank, slot), gradients, stream);
}
void LaneReducer::end(Group& data, Stream& stream, const std::string& label) { start(data, stream, label); }

void LaneReducer::start(Group& data, Stream& stream, const std::string& label) {
  LS_CHECK(data.size() == plan().ranks && data.rank() == plan().rank, "the plan is for rank ", plan().rank,
           " of ", plan().ranks, ", the group has rank ", data.rank(), " of ", data.size());
  LS_CHECK(phase_ == Phase::adding && mine_.complete(), "an exchange at micro-batch ", mine_.next(),
           ", before all were added");
  phase_ = Phase::flying;
  if (!invariant_) {
    if (plan().ranks == 1) return;
    work_ = data.start(
        ReduceScatter{mine_.block(0), received_data_.as<float>(), mine_.rows().chunks(), DType::f32}, label,
        stream);
    return;
  }
  std::vector<const float*> blocks;
  for (size_t b = 0; b < plan().blocks(plan().rank).size(); ++b) blocks.push_back(mine_.block(b));
  exchange_->start(data, blocks, received_data_.as<float>(), label, stream);
}

void LaneReducer::wait(Stream& stream) {
  LS_CHECK(phase_ == Phase::flying, "no exchange is under way");
  if (exchange_) exchange_->wait(stream);
  if (work_) work_->wait(stream);
  work_.reset();
  phase_ = Phase::summed;
}

Reductions::Sum LaneReducer::addends_of(size_t tensor) const {
  LS_CHECK(phase_ == Phase::summed, "a sum before its exchange was waited for");
  LS_CHECK(tensor < mine_.rows().tensors(), "tensor ", tensor, " of ", mine_.rows().tensors());
  Reductions::Sum out;
  out.rows = mine_.rows().owned_rows(tensor).second;
  out.width = mine_.rows().width(tensor);
  if (!invariant_) {
    const float* sum =
        plan().ranks > 1 ? received_data_.as<float>() : mine_.block(0) + mine_.rows().chunk_at();
    out.sources = {sum + mine_.rows().at(tensor)};
    out.merges = {0};
    return out;
  }
  for (const auto& source : tree_.sources)
    out.sources.push_back(exchange_->chunk(source) + mine_.rows().at(tensor));
  out.merges = tree_.merges;
  return out;
}

void LaneReducer::sum(size_t tensor, float* rows_out, double* row_squares, Stream& stream) {
  Reductions::Sum one = sum_of(tensor, rows_out, row_squares);
  reductions_->sum({&one, 1}, stream);
}

}  // namespace lockstep
