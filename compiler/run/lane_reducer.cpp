// Partials, the exchange, and the last additions.
#include "compiler/run/lane_reducer.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/mesh/layout.h"

namespace lockstep {

LaneReducer::LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, Device& device, Reductions& reductions, bool invariant)
    : LaneReducer(shapes, plan, device, reductions, invariant, RowOwners::alone(plan.ranks)) {}

LaneReducer::LaneReducer(const std::vector<Shape>& shapes, const LanePlan& plan, Device& device, Reductions& reductions, bool invariant,
                         const RowOwners& owners)
    : plan_(plan), owners_(owners), device_(&device), reductions_(&reductions), invariant_(invariant) {
  plan_.check();
  LS_CHECK(owners_.ranks() == plan_.ranks && plan_.order == LaneOrder::contiguous, "owners of ", owners_.ranks(), " ranks for ", plan_.ranks);
  for (const Shape& shape : shapes) {
    LS_CHECK(!shape.empty(), "tensor ", tensors_.size(), " of a bucket has no rows");
    tensors_.push_back({shape[0], shape[0] ? numel(shape) / shape[0] : 0});
  }
  auto lay_out = [&](int r) {
    const int64_t begin = elements_;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      auto [first, count] = rows(t, r);
      const int64_t width = tensors_[t].width;
      if (r == plan_.rank) at_.push_back(elements_ - begin);
      if (count > 0 && width > 0) runs_.push_back({elements_, t, first * width, count * width});
      elements_ += count * width;
    }
    chunk_count_[static_cast<size_t>(r)] = elements_ - begin;
    return begin;
  };
  chunk_count_.resize(static_cast<size_t>(plan_.ranks));
  if (!invariant_) {
    for (int r = 0; r < plan_.ranks; ++r)
      if (int64_t begin = lay_out(r); r == plan_.rank) own_at_ = begin;
    slots_ = 1;
    if (plan_.ranks > 1) received_ = chunk_count_[static_cast<size_t>(plan_.rank)];
    return;
  }
  for (int r = 0; r < plan_.ranks; ++r)
    if (r != plan_.rank) lay_out(r);
  own_at_ = lay_out(plan_.rank);

  // The slots that this rank's lanes need, at their fullest.
  auto [first_lane, lanes] = plan_.lane_range(plan_.rank);
  LaneCounter counter;
  size_t lefts = 0;  // of one addition, at most
  for (int64_t lane = first_lane; lane < first_lane + lanes; ++lane) {
    const size_t fold = counter.blocks().size() + 1;
    lefts = std::max(lefts, static_cast<size_t>(counter.push({lane, 1})) + (plan_.per_lane() > 1 ? 1 : 0));
    slots_ = std::max(slots_, plan_.per_lane() > 1 ? fold : counter.blocks().size());
  }

  // What every rank sends, and the tree over all of it.
  counter.clear();
  std::vector<std::vector<LaneBlock>> blocks;
  for (int r = 0; r < plan_.ranks; ++r) {
    blocks.push_back(plan_.blocks(r));
    rounds_ = std::max(rounds_, blocks.back().size());
    for (size_t b = 0; b < blocks.back().size(); ++b) sources_.push_back({r, static_cast<int>(b), counter.push(blocks.back()[b])});
  }
  sources_.back().merges += counter.remaining();
  check_limits(lefts);

  // Received partials lie as the rounds bring them: of round b, the chunk of each other rank that has a block b.
  received_at_.resize(blocks.size());
  for (size_t b = 0; b < rounds_; ++b)
    for (int r = 0; r < plan_.ranks; ++r) {
      if (b >= blocks[static_cast<size_t>(r)].size()) continue;
      const bool own = r == plan_.rank;
      received_at_[static_cast<size_t>(r)].push_back(own ? -1 : received_);
      if (!own) received_ += chunk_count_[static_cast<size_t>(plan_.rank)];
    }
}

void LaneReducer::check_limits(size_t lefts) const {
  const size_t most = reductions_->most_sources();
  if (sources_.size() > most)
    throw UserError(str("batch.lanes ", plan_.lanes, " on ", plan_.ranks, " data ranks leaves ", sources_.size(),
                        " partial sums of a gradient for one rank to add, and ", device_->describe(), " adds at most ", most,
                        "; set batch.lanes to at most ", most, " (a divisor of the ", plan_.micro_batches,
                        " micro-batches), use fewer ranks, or set train.numerics to \"free\""));
  if (lefts > reductions_->most_lefts())
    throw UserError(str("batch.lanes ", plan_.lanes, " on ", plan_.ranks, " data ranks adds ", lefts,
                        " partial sums to one gradient at once, and ", device_->describe(), " adds at most ", reductions_->most_lefts(),
                        "; set batch.lanes to a smaller divisor of the ", plan_.micro_batches,
                        " micro-batches, use more ranks, or set train.numerics to \"free\""));
}

LaneReducer::Rows LaneReducer::rows(size_t tensor, int rank) const {
  auto [first, count] = owners_.rows(tensors_.at(tensor).rows, rank);
  return {first, count};
}

int64_t LaneReducer::bytes() const {
  return (static_cast<int64_t>(slots_) * elements_ + received_) * static_cast<int64_t>(sizeof(float));
}

int64_t LaneReducer::sent_bytes() const {
  if (!invariant_) return (elements_ - chunk_count_[static_cast<size_t>(plan_.rank)]) * static_cast<int64_t>(sizeof(float));
  const auto blocks = static_cast<int64_t>(received_at_[static_cast<size_t>(plan_.rank)].size());
  return blocks * (elements_ - chunk_count_[static_cast<size_t>(plan_.rank)]) * static_cast<int64_t>(sizeof(float));
}

void LaneReducer::begin() {
  LS_CHECK(works_.empty() && phase_ != Phase::flying, "the exchange of the last step was not waited for");
  if (phase_ == Phase::idle) {
    for (size_t s = 0; s < slots_; ++s) partials_.emplace_back(static_cast<size_t>(elements_) * sizeof(float), device_->memory());
    received_data_ = Buffer(static_cast<size_t>(received_) * sizeof(float), device_->memory());
  }
  counter_.clear();
  next_ = plan_.micro_batch_range(plan_.rank).first;
  phase_ = Phase::adding;
}

void LaneReducer::push(int64_t micro_batch, const std::vector<const void*>& gradients, Stream& stream) {
  LS_CHECK(phase_ == Phase::adding, "a gradient outside a step");
  auto [first, count] = plan_.micro_batch_range(plan_.rank);
  LS_CHECK(micro_batch == next_ && micro_batch < first + count, "micro-batch ", micro_batch, " was pushed where ", next_, " of ", first,
           " to ", first + count, " is due");
  LS_CHECK(gradients.size() == tensors_.size(), gradients.size(), " gradients for ", tensors_.size(), " tensors");
  const int64_t lane = micro_batch / plan_.per_lane(), in_lane = micro_batch % plan_.per_lane();
  size_t slot = counter_.blocks().size();
  // The partials that stand to the left of the gradient, nearest first; the farthest one becomes the sum.
  std::vector<const float*> lefts;
  if (!invariant_) {
    slot = 0;
    if (micro_batch > first) lefts.push_back(partial(0));
  } else {
    if (in_lane > 0) lefts.push_back(partial(slot));
    if (in_lane == plan_.per_lane() - 1) {
      const int merges = counter_.push({lane, 1});
      for (int i = 0; i < merges; ++i) lefts.push_back(partial(--slot));
    }
  }
  std::vector<Reductions::Run> runs;
  for (const Run& run : runs_) runs.push_back({run.at, static_cast<const float*>(gradients[run.tensor]) + run.from, run.count});
  reductions_->accumulate(runs, lefts, partial(slot), stream);
  ++next_;
}

void LaneReducer::add(int64_t slot, const std::vector<const void*>& gradients, Group&, Stream& stream, const std::string&) {
  push(plan_.micro_batch(plan_.rank, slot), gradients, stream);
}
void LaneReducer::end(Group& data, Stream& stream, const std::string& label) { start(data, stream, label); }

void LaneReducer::start(Group& data, Stream& stream, const std::string& label) {
  LS_CHECK(data.size() == plan_.ranks && data.rank() == plan_.rank, "the plan is for rank ", plan_.rank, " of ", plan_.ranks,
           ", the group has rank ", data.rank(), " of ", data.size());
  auto [first, count] = plan_.micro_batch_range(plan_.rank);
  LS_CHECK(phase_ == Phase::adding && next_ == first + count, "an exchange at micro-batch ", next_, " of ", first, " to ", first + count);
  phase_ = Phase::flying;
  if (plan_.ranks == 1) return;
  if (!invariant_) {
    works_.push_back(data.start(ReduceScatter{partial(0), received_data_.as<float>(), chunk_count_, DType::f32}, label, stream));
    return;
  }
  const auto me = static_cast<size_t>(plan_.rank);
  int64_t at = 0;
  for (size_t b = 0; b < rounds_; ++b) {
    // Round b carries the b-th subtree of every rank that has one. A rank's own chunk is last in its partial and stays there.
    std::vector<int64_t> send(chunk_count_.size(), 0), receive(chunk_count_.size(), 0);
    const bool mine = b < received_at_[me].size();
    int64_t receives = 0;
    for (size_t r = 0; r < chunk_count_.size(); ++r) {
      if (r == me) continue;
      if (mine) send[r] = chunk_count_[r];
      if (b < received_at_[r].size()) receive[r] = chunk_count_[me], receives += chunk_count_[me];
    }
    float* in = mine ? partial(b) : received_data_.as<float>();
    works_.push_back(data.start(AllToAll{in, received_data_.as<float>() + at, send, receive, DType::f32},
                                rounds_ == 1 ? label : str(label, " part ", b), stream));
    at += receives;
  }
}

void LaneReducer::wait(Stream& stream) {
  LS_CHECK(phase_ == Phase::flying, "no exchange is under way");
  for (auto& work : works_) work->wait(stream);
  works_.clear();
  phase_ = Phase::summed;
}

Reductions::Sum LaneReducer::sum_of(size_t tensor, float* rows_out, double* row_squares) const {
  LS_CHECK(phase_ == Phase::summed, "a sum before its exchange was waited for");
  LS_CHECK(tensor < tensors_.size(), "tensor ", tensor, " of ", tensors_.size());
  Reductions::Sum out;
  out.rows = owned_rows(tensor).count;
  out.width = tensors_[tensor].width;
  out.out = rows_out;
  out.row_squares = row_squares;
  if (!invariant_) {
    out.sources = {(plan_.ranks > 1 ? received_data_.as<float>() : partial(0) + own_at_) + at_[tensor]};
    out.merges = {0};
    return out;
  }
  for (const Source& source : sources_) {
    const int64_t received = received_at_[static_cast<size_t>(source.rank)][static_cast<size_t>(source.block)];
    out.sources.push_back((received < 0 ? partial(static_cast<size_t>(source.block)) + own_at_ : received_data_.as<float>() + received) +
                          at_[tensor]);
    out.merges.push_back(source.merges);
  }
  return out;
}

void LaneReducer::sum(size_t tensor, float* rows_out, double* row_squares, Stream& stream) {
  Reductions::Sum one = sum_of(tensor, rows_out, row_squares);
  reductions_->sum({&one, 1}, stream);
}

}  // namespace lockstep
