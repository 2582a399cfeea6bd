// Rounds: pack, all_to_all, push the leaves.
#include "compiler/run/round_reducer.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

void RoundBuffers::fit(int64_t send, int64_t receive) {
  send_ = std::max(send_, send);
  receive_ = std::max(receive_, receive);
}

int64_t RoundBuffers::bytes() const { return static_cast<int64_t>(kSets * sizeof(float)) * (send_ + receive_); }

void RoundBuffers::allocate(Device& device) {
  if (!sets_.empty()) return;
  sets_.resize(kSets);
  for (Set& set : sets_) {
    set.send = Buffer(static_cast<size_t>(send_) * sizeof(float), device.memory());
    set.receive = Buffer(static_cast<size_t>(receive_) * sizeof(float), device.memory());
  }
}

RoundBuffers::Set& RoundBuffers::take(Stream& stream) {
  Set& set = sets_[next_++ % kSets];
  if (set.user) set.user->complete(stream);
  return set;
}

RoundReducer::RoundReducer(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners, Device& device,
                           Reductions& reductions, bool invariant, RoundBuffers& buffers)
    : plan_(plan), owners_(owners), device_(&device), reductions_(&reductions), invariant_(invariant), buffers_(&buffers) {
  plan_.check();
  LS_CHECK(plan_.order == LaneOrder::interleaved && owners_.ranks() == plan_.ranks, "rounds of ", plan_.ranks, " ranks, owners of ",
           owners_.ranks());
  for (const Shape& shape : shapes) {
    LS_CHECK(!shape.empty(), "tensor ", tensors_.size(), " of a bucket has no rows");
    tensors_.push_back({shape[0], shape[0] ? numel(shape) / shape[0] : 0});
  }
  chunk_count_.resize(static_cast<size_t>(plan_.ranks));
  auto lay_out = [&](int r) {
    const int64_t begin = elements_;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      auto [first, count] = owners_.rows(tensors_[t].rows, r);
      const int64_t width = tensors_[t].width;
      if (r == plan_.rank) at_.push_back(elements_ - begin);
      if (count > 0 && width > 0) runs_.push_back({elements_, t, first * width, count * width});
      elements_ += count * width;
    }
    chunk_count_[static_cast<size_t>(r)] = elements_ - begin;
    if (r == plan_.rank) own_at_ = begin;
  };
  // In free numerics a reduce_scatter takes the chunks in rank order; an all_to_all leaves this rank's own chunk out, at the end.
  for (int r = 0; r < plan_.ranks; ++r)
    if (!invariant_ || r != plan_.rank) lay_out(r);
  if (invariant_) lay_out(plan_.rank);

  const int64_t own = chunk_count_[static_cast<size_t>(plan_.rank)];
  buffers_->fit(elements_, invariant_ ? own * (plan_.ranks - 1) : own);
  if (!invariant_) return;
  size_t lefts = 0;
  LaneCounter counter;
  for (int64_t lane = 0; lane < plan_.lanes; ++lane) {
    const size_t fold = counter.blocks().size() + 1;
    lefts = std::max(lefts, static_cast<size_t>(counter.push({lane, 1})) + (plan_.per_lane() > 1 ? 1 : 0));
    slots_ = std::max(slots_, plan_.per_lane() > 1 ? fold : counter.blocks().size());
  }
  if (lefts > reductions_->most_lefts() || counter.blocks().size() > reductions_->most_sources())
    throw UserError(str("batch.lanes ", plan_.lanes, " adds ", std::max(lefts, counter.blocks().size()),
                        " partial sums of one gradient at once, and ", device_->describe(), " adds at most ",
                        std::min(reductions_->most_lefts(), reductions_->most_sources()), "; set batch.lanes to a smaller divisor of the ",
                        plan_.micro_batches, " micro-batches, or set train.numerics to \"free\""));
}

int64_t RoundReducer::bytes() const {
  return static_cast<int64_t>(slots_ * sizeof(float)) * chunk_count_[static_cast<size_t>(plan_.rank)];
}

int64_t RoundReducer::sent_bytes() const {
  int64_t rounds = 0;
  for (int64_t slot = 0; slot < plan_.slots(plan_.rank); ++slot) rounds += !invariant_ || plan_.micro_batch(plan_.rank, slot) >= 0;
  return rounds * (elements_ - chunk_count_[static_cast<size_t>(plan_.rank)]) * static_cast<int64_t>(sizeof(float));
}

void RoundReducer::begin() {
  LS_CHECK(flying_ < 0 && !adding_, "the rounds of the last step were not waited for");
  if (partials_.empty()) {
    buffers_->allocate(*device_);
    for (size_t s = 0; s < slots_; ++s)
      partials_.emplace_back(static_cast<size_t>(chunk_count_[static_cast<size_t>(plan_.rank)]) * sizeof(float), device_->memory());
  }
  counter_.clear();
  next_slot_ = added_ = 0;
  adding_ = true, summed_ = false;
}

void RoundReducer::add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream, const std::string& label) {
  LS_CHECK(adding_ && slot == next_slot_ && slot < plan_.slots(plan_.rank), "round ", slot, " was added where ", next_slot_, " of ",
           plan_.slots(plan_.rank), " is due");
  LS_CHECK(data.size() == plan_.ranks && data.rank() == plan_.rank, "the plan is for rank ", plan_.rank, " of ", plan_.ranks,
           ", the group has rank ", data.rank(), " of ", data.size());
  complete(stream);
  ++next_slot_;
  set_ = &buffers_->take(stream);
  set_->user = this;
  flying_ = slot;
  const bool mine = plan_.micro_batch(plan_.rank, slot) >= 0;
  const auto own = static_cast<size_t>(plan_.rank);
  if (mine) {
    LS_CHECK(gradients.size() == tensors_.size(), gradients.size(), " gradients for ", tensors_.size(), " tensors");
    std::vector<Reductions::Run> runs;
    for (const Run& run : runs_) runs.push_back({run.at, static_cast<const float*>(gradients[run.tensor]) + run.from, run.count});
    reductions_->accumulate(runs, {}, set_->send.as<float>(), stream);
  } else if (!invariant_) {
    device_->zero(set_->send.data(), static_cast<size_t>(elements_) * sizeof(float), stream);
  }
  const std::string round = str(label, " round ", slot);
  if (!invariant_) {
    work_ = data.start(ReduceScatter{set_->send.data(), set_->receive.data(), chunk_count_, DType::f32}, round, stream);
    return;
  }
  std::vector<int64_t> send(chunk_count_.size(), 0), receive(chunk_count_.size(), 0);
  for (size_t r = 0; r < chunk_count_.size(); ++r) {
    if (r == own) continue;
    if (mine) send[r] = chunk_count_[r];
    if (plan_.micro_batch(static_cast<int>(r), slot) >= 0) receive[r] = chunk_count_[own];
  }
  work_ = data.start(AllToAll{set_->send.data(), set_->receive.data(), send, receive, DType::f32}, round, stream);
}

void RoundReducer::complete(Stream& stream) {
  if (flying_ < 0) return;
  work_->wait(stream);
  work_.reset();
  const int64_t slot = std::exchange(flying_, -1), own = chunk_count_[static_cast<size_t>(plan_.rank)];
  const float* received = set_->receive.as<float>();
  if (!invariant_) {
    push(added_, received, stream);
  } else {
    for (int r = 0; r < plan_.ranks; ++r) {
      const int64_t micro_batch = plan_.micro_batch(r, slot);
      if (micro_batch < 0) break;
      push(micro_batch, r == plan_.rank ? set_->send.as<float>() + own_at_ : received, stream);
      if (r != plan_.rank) received += own;
    }
  }
  set_->user = nullptr;
  set_ = nullptr;
}

// A leaf of this rank's rows: folded into its lane from the left, and with the lane's last leaf into the counter.
void RoundReducer::push(int64_t micro_batch, const float* leaf, Stream& stream) {
  LS_CHECK(micro_batch == added_, "leaf ", micro_batch, " was pushed where ", added_, " is due");
  ++added_;
  size_t slot = counter_.blocks().size();
  std::vector<const float*> lefts;
  if (!invariant_) {
    slot = 0;
    if (micro_batch > 0) lefts.push_back(partial(0));
  } else {
    const int64_t in_lane = micro_batch % plan_.per_lane();
    if (in_lane > 0) lefts.push_back(partial(slot));
    if (in_lane == plan_.per_lane() - 1) {
      const int merges = counter_.push({micro_batch / plan_.per_lane(), 1});
      for (int i = 0; i < merges; ++i) lefts.push_back(partial(--slot));
    }
  }
  const int64_t own = chunk_count_[static_cast<size_t>(plan_.rank)];
  if (own == 0) return;
  const Reductions::Run run{0, leaf, own};
  reductions_->accumulate({&run, 1}, lefts, partial(slot), stream);
}

void RoundReducer::end(Group&, Stream&, const std::string&) {
  LS_CHECK(adding_ && next_slot_ == plan_.slots(plan_.rank), "the end came after ", next_slot_, " of ", plan_.slots(plan_.rank), " rounds");
}

void RoundReducer::wait(Stream& stream) {
  LS_CHECK(adding_ && next_slot_ == plan_.slots(plan_.rank), "a wait after ", next_slot_, " of ", plan_.slots(plan_.rank), " rounds");
  complete(stream);
  adding_ = false, summed_ = true;
}

Reductions::Sum RoundReducer::sum_of(size_t tensor, float* rows_out, double* row_squares) const {
  LS_CHECK(summed_, "a sum before its rounds were waited for");
  LS_CHECK(tensor < tensors_.size(), "tensor ", tensor, " of ", tensors_.size());
  Reductions::Sum out;
  out.rows = owners_.rows(tensors_[tensor].rows, plan_.rank).second;
  out.width = tensors_[tensor].width;
  out.out = rows_out;
  out.row_squares = row_squares;
  const size_t blocks = invariant_ ? counter_.blocks().size() : 1;
  for (size_t b = 0; b < blocks; ++b) {
    out.sources.push_back(partial(b) + at_[tensor]);
    out.merges.push_back(0);
  }
  out.merges.back() += invariant_ ? counter_.remaining() : 0;
  return out;
}

}  // namespace lockstep
