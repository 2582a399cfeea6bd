// Which reducers a plan gets.
#include "compiler/reduce/gradient_reducer.h"

#include "compiler/reduce/lane_reducer.h"
#include "compiler/reduce/node_reducer.h"
#include "compiler/reduce/node_rounds.h"
#include "compiler/reduce/round_reducer.h"
#include "core/base/error.h"

namespace lockstep {

namespace {
// A reducer and the buffers that it takes turns in with others.
class OfRounds : public RoundReducer {
 public:
  OfRounds(const std::vector<Shape>& shapes, const LanePlan& plan, const RowOwners& owners, Device& device,
           Reductions& reductions, bool invariant, std::shared_ptr<RoundBuffers> buffers, DType dtype)
      : RoundReducer(shapes, plan, owners, device, reductions, invariant, *buffers, dtype),
        buffers_(std::move(buffers)) {}

 private:
  std::shared_ptr<RoundBuffers> buffers_;
};
}  // namespace

Reductions::Sum GradientReducer::sum_of(size_t tensor, float* rows_out, double* row_squares) const {
  Reductions::Sum out = addends_of(tensor);
  out.out = rows_out ? rows_out : static_cast<float*>(const_cast<void*>(out.sources.at(0).at));
  out.row_squares = row_squares;
  return out;
}

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

GradientReducers make_reducers(const std::vector<std::vector<Shape>>& buckets, const LanePlan& plan,
                               const RowOwners& owners, Device& device, Reductions& reductions,
                               bool invariant, const DataNodes& nodes, const std::vector<DType>& dtypes) {
  GradientReducers out;
  plan.check();
  LS_CHECK(dtypes.empty() || dtypes.size() == buckets.size(), dtypes.size(), " dtypes of ", buckets.size(),
           " buckets");
  LanePlan own = plan;
  if (plan.ranks == 1) own.order = LaneOrder::contiguous;  // the same micro-batches, and nothing to send
  const bool by_host = exchanges_by_host(own, invariant, nodes.ranks),
             rounds = own.order == LaneOrder::interleaved;
  auto turn = std::make_shared<NodeTurn>();
  auto buffers = std::make_shared<RoundBuffers>();
  for (size_t b = 0; b < buckets.size(); ++b) {
    const auto& shapes = buckets[b];
    const DType dtype = dtypes.empty() ? DType::f32 : dtypes[b];
    if (rounds && by_host)
      out.buckets.push_back(
          std::make_unique<NodeRounds>(shapes, own, owners, device, reductions, buffers, nodes, turn, dtype));
    else if (rounds)
      out.buckets.push_back(
          std::make_unique<OfRounds>(shapes, own, owners, device, reductions, invariant, buffers, dtype));
    else if (by_host)
      out.buckets.push_back(
          std::make_unique<NodeReducer>(shapes, own, owners, device, reductions, nodes, turn, dtype));
    else
      out.buckets.push_back(
          std::make_unique<LaneReducer>(shapes, own, device, reductions, invariant, owners, dtype));
  }
  out.shared_bytes = buffers->bytes();
  return out;
}

}  // namespace lockstep
