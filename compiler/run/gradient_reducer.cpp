// Which reducers a plan gets.
#include "compiler/run/gradient_reducer.h"

#include "compiler/run/lane_reducer.h"
#include "compiler/run/node_reducer.h"
#include "compiler/run/node_rounds.h"
#include "compiler/run/round_reducer.h"

namespace lockstep {

namespace {
// A reducer and the buffers that it takes turns in with others.
class OfRounds : public RoundReducer {
 public:
  OfRounds(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners, Device& device, Reductions& reductions,
           bool invariant, std::shared_ptr<RoundBuffers> buffers)
      : RoundReducer(shapes, plan, owners, device, reductions, invariant, *buffers), buffers_(std::move(buffers)) {}

 private:
  std::shared_ptr<RoundBuffers> buffers_;
};
}  // namespace

int64_t GradientReducers::bytes() const {
  int64_t out = shared_bytes;
  for (const auto& bucket : buckets) out += bucket->bytes();
  return out;
}

int64_t GradientReducers::sent_bytes() const {
  int64_t out = 0;
  for (const auto& bucket : buckets) out += bucket->sent_bytes();
  return out;
}

int64_t GradientReducers::sent_across() const {
  int64_t out = 0;
  for (const auto& bucket : buckets) {
    if (bucket->sent_across() < 0) return -1;
    out += bucket->sent_across();
  }
  return buckets.empty() ? -1 : out;
}

std::vector<int> DataNodes::order(int data_ranks, int rank) const {
  std::vector<int> out;
  for (int seat : own_last(ranks, rank % ranks))
    for (int host : own_last(data_ranks / ranks, rank / ranks)) out.push_back(host * ranks + seat);
  return out;
}

GradientReducers make_reducers(const std::vector<std::vector<Shape>>& buckets, const LanePlan& plan, const RowOwners& owners, Device& device,
                               Reductions& reductions, bool invariant, const DataNodes& nodes) {
  GradientReducers out;
  plan.check();
  LanePlan own = plan;
  if (plan.ranks == 1) own.order = LaneOrder::contiguous;  // the same micro-batches, and nothing to send
  const bool by_host = exchanges_by_host(own, invariant, nodes.ranks);
  auto turn = std::make_shared<NodeTurn>();
  if (own.order == LaneOrder::contiguous) {
    if (by_host) {
      for (const auto& shapes : buckets)
        out.buckets.push_back(std::make_unique<NodeReducer>(shapes, own, owners, device, reductions, nodes, turn));
      return out;
    }
    for (const auto& shapes : buckets)
      out.buckets.push_back(std::make_unique<LaneReducer>(shapes, own, device, reductions, invariant, owners));
    return out;
  }
  auto buffers = std::make_shared<RoundBuffers>();
  for (const auto& shapes : buckets)
    if (by_host)
      out.buckets.push_back(std::make_unique<NodeRounds>(shapes, own, owners, device, reductions, buffers, nodes, turn));
    else
      out.buckets.push_back(std::make_unique<OfRounds>(shapes, own, owners, device, reductions, invariant, buffers));
  if (!buckets.empty()) out.shared_bytes = buffers->bytes();
  return out;
}

}  // namespace lockstep
