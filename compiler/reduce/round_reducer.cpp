// Rounds: pack, all_to_all, push the leaves.
#include "compiler/reduce/round_reducer.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

void RoundBuffers::fit(int64_t send, int64_t receive) {
  send_ = std::max(send_, send);
  receive_ = std::max(receive_, receive);
}

int64_t RoundBuffers::bytes() const { return static_cast<int64_t>(kSets) * (send_ + receive_); }

void RoundBuffers::allocate(Device& device) {
  if (!sets_.empty()) return;
  sets_.resize(kSets);
  for (Set& set : sets_) {
    set.send = Buffer(send_, device.memory());
    set.receive = Buffer(receive_, device.memory());
  }
}

RoundBuffers::Set& RoundBuffers::take(Stream& stream) {
  Set& set = sets_[next_++ % kSets];
  if (set.user) set.user->complete(stream);
  return set;
}

RoundReducer::RoundReducer(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners,
                           Device& device, Reductions& reductions, bool invariant, RoundBuffers& buffers,
                           DType dtype)
    : plan_(plan),
      // In free numerics a reduce_scatter takes the chunks in rank order; an all_to_all leaves this rank's
      // own chunk out, at the end.
      rows_(shapes, owners,
            invariant ? own_last(plan.ranks, plan.rank) : own_last(plan.ranks, plan.ranks - 1), plan.rank,
            dtype),
      device_(&device),
      reductions_(&reductions),
      invariant_(invariant),
      buffers_(&buffers),
      fold_(plan, rows_.chunk(), plan.ranks, device, reductions, invariant) {
  plan_.check();
  LS_CHECK(plan_.order == LaneOrder::interleaved, "rounds of contiguous lanes");
  buffers_->fit(rows_.elements() * size(),
                (invariant_ ? rows_.chunk() * (plan_.ranks - 1) : rows_.chunk()) * size());
}

int64_t RoundReducer::bytes() const { return fold_.bytes(); }

int64_t RoundReducer::sent_bytes() const {
  int64_t rounds = 0;
  for (int64_t slot = 0; slot < plan_.slots(plan_.rank); ++slot)
    rounds += !invariant_ || plan_.micro_batch(plan_.rank, slot) >= 0;
  return rounds * (rows_.elements() - rows_.chunk()) * size();
}

void RoundReducer::begin() {
  LS_CHECK(flying_ < 0 && !adding_, "the rounds of the last step were not waited for");
  buffers_->allocate(*device_);
  fold_.begin(*device_);
  next_slot_ = 0;
  adding_ = true, summed_ = false;
}

void RoundReducer::add(int64_t slot, const std::vector<const void*>& gradients, Group& data, Stream& stream,
                       const std::string& label) {
  LS_CHECK(adding_ && slot == next_slot_ && slot < plan_.slots(plan_.rank), "round ", slot,
           " was added where ", next_slot_, " of ", plan_.slots(plan_.rank), " is due");
  LS_CHECK(data.size() == plan_.ranks && data.rank() == plan_.rank, "the plan is for rank ", plan_.rank,
           " of ", plan_.ranks, ", the group has rank ", data.rank(), " of ", data.size());
  complete(stream);
  ++next_slot_;
  set_ = &buffers_->take(stream);
  set_->user = this;
  flying_ = slot;
  const bool mine = plan_.micro_batch(plan_.rank, slot) >= 0;
  const size_t own = plan_.rank;
  if (mine && invariant_)
    rows_.pack(gradients, set_->send.data(), *reductions_, stream);
  else if (mine)
    reductions_->accumulate(rows_.runs(gradients), {}, set_->send.as<float>(), stream);
  else if (!invariant_)
    device_->zero(set_->send.data(), rows_.elements() * size(), stream);
  const std::string round = str(label, " round ", slot);
  if (!invariant_) {
    work_ = data.start(ReduceScatter{set_->send.data(), set_->receive.data(), rows_.chunks(), DType::f32},
                       round, stream);
    return;
  }
  std::vector<int64_t> send(rows_.chunks().size(), 0), receive(rows_.chunks().size(), 0);
  for (size_t r = 0; r < rows_.chunks().size(); ++r) {
    if (r == own) continue;
    if (mine) send[r] = rows_.chunks()[r];
    if (plan_.micro_batch(static_cast<int>(r), slot) >= 0) receive[r] = rows_.chunk();
  }
  work_ = data.start(AllToAll{set_->send.data(), set_->receive.data(), send, receive, rows_.dtype()}, round,
                     stream);
}

void RoundReducer::complete(Stream& stream) {
  if (flying_ < 0) return;
  work_->wait(stream);
  work_.reset();
  const int64_t slot = std::exchange(flying_, -1), own = rows_.chunk();
  const std::byte* received = set_->receive.data();
  std::vector<Reductions::Source> leaves;
  if (!invariant_) {
    leaves.emplace_back(received, DType::f32);
  } else {
    for (int r = 0; r < plan_.ranks && plan_.micro_batch(r, slot) >= 0; ++r) {
      leaves.emplace_back(r == plan_.rank ? set_->send.data() + rows_.chunk_at() * size() : received,
                          rows_.dtype());
      if (r != plan_.rank) received += own * size();
    }
  }
  fold_.push_leaves(leaves, stream);
  set_->user = nullptr;
  set_ = nullptr;
}

void RoundReducer::end(Group&, Stream&, const std::string&) {
  LS_CHECK(adding_ && next_slot_ == plan_.slots(plan_.rank), "the end came after ", next_slot_, " of ",
           plan_.slots(plan_.rank), " rounds");
}

void RoundReducer::wait(Stream& stream) {
  LS_CHECK(adding_ && next_slot_ == plan_.slots(plan_.rank), "a wait after ", next_slot_, " of ",
           plan_.slots(plan_.rank), " rounds");
  complete(stream);
  adding_ = false, summed_ = true;
}

Reductions::Sum RoundReducer::addends_of(size_t tensor) const {
  LS_CHECK(summed_, "a sum before its rounds were waited for");
  LS_CHECK(tensor < rows_.tensors(), "tensor ", tensor, " of ", rows_.tensors());
  Reductions::Sum out;
  out.rows = rows_.owned_rows(tensor).second;
  out.width = rows_.width(tensor);
  fold_.finish(rows_.at(tensor), out);
  return out;
}

}  // namespace lockstep
