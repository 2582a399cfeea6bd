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
  size_t depth = 2;  // of the counter at its fullest, with a fold
  for (int64_t lanes = plan_.lanes; lanes > 1; lanes /= 2) ++depth;
  if (depth + 1 > reductions_->most_sources())
    throw UserError(str("batch.lanes ", plan_.lanes, " adds ", depth + 1, " partial sums of one gradient at once, and ", device_->describe(),
                        " adds at most ", reductions_->most_sources(), "; set batch.lanes to a smaller divisor of the ", plan_.micro_batches,
                        " micro-batches, or set train.numerics to \"free\""));
  most_leaves_ = std::min(static_cast<size_t>(plan_.ranks), reductions_->most_sources() - depth);
  LaneCounter counter;
  int64_t added = 0;
  while (added < plan_.micro_batches) {
    const int64_t left_in_round = plan_.ranks - added % plan_.ranks;
    slots_ = std::max(slots_, depth_after(std::min({left_in_round, static_cast<int64_t>(most_leaves_), plan_.micro_batches - added}), counter, added));
  }
}

size_t RoundReducer::depth_after(int64_t leaves, LaneCounter& counter, int64_t& added) const {
  for (; leaves > 0; --leaves, ++added)
    if (added % plan_.per_lane() == plan_.per_lane() - 1) counter.push({added / plan_.per_lane(), 1});
  return counter.blocks().size() + (added % plan_.per_lane() ? 1 : 0);
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
  std::vector<const float*> leaves;
  if (!invariant_) {
    leaves = {received};
  } else {
    for (int r = 0; r < plan_.ranks && plan_.micro_batch(r, slot) >= 0; ++r) {
      leaves.push_back(r == plan_.rank ? set_->send.as<float>() + own_at_ : received);
      if (r != plan_.rank) received += own;
    }
  }
  for (size_t from = 0; from < leaves.size(); from += most_leaves_)
    push({leaves.begin() + static_cast<int64_t>(from), leaves.begin() + static_cast<int64_t>(std::min(leaves.size(), from + most_leaves_))}, stream);
  set_->user = nullptr;
  set_ = nullptr;
}

// A leaf is folded into its lane from the left, and with the lane's last leaf into the counter. What the leaves and the partials become is
// written as trees over them, then each tree is added in one pass.
void RoundReducer::push(const std::vector<const float*>& leaves, Stream& stream) {
  struct Tree {
    std::vector<const float*> sources;
    std::vector<int> merges;
  };
  std::vector<Tree> trees;
  const bool folding = invariant_ ? added_ % plan_.per_lane() != 0 : added_ > 0;
  const size_t held = (invariant_ ? counter_.blocks().size() : 0) + (folding ? 1 : 0);
  for (size_t i = 0; i < held; ++i) trees.push_back({{partial(i)}, {0}});
  for (const float* leaf : leaves) {
    int merges = 0;
    if (!invariant_) {
      merges = added_ > 0;
    } else {
      const int64_t in_lane = added_ % plan_.per_lane();
      merges = in_lane > 0;
      if (in_lane == plan_.per_lane() - 1) merges += counter_.push({added_ / plan_.per_lane(), 1});
    }
    ++added_;
    trees.push_back({{leaf}, {0}});
    for (; merges > 0; --merges) {
      Tree right = std::move(trees.back());
      trees.pop_back();
      Tree& left = trees.back();
      left.sources.insert(left.sources.end(), right.sources.begin(), right.sources.end());
      left.merges.insert(left.merges.end(), right.merges.begin(), right.merges.end());
      ++left.merges.back();
    }
  }
  const int64_t own = chunk_count_[static_cast<size_t>(plan_.rank)];
  // In order: a tree may take the place of a partial that stands in one before it.
  for (size_t i = 0; i < trees.size() && own > 0; ++i) {
    if (trees[i].sources.size() == 1 && trees[i].sources[0] == partial(i)) continue;
    Reductions::Sum sum;
    sum.sources = std::move(trees[i].sources);
    sum.merges = std::move(trees[i].merges);
    sum.rows = 1, sum.width = own;
    sum.out = partial(i);
    reductions_->sum({&sum, 1}, stream);
  }
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
