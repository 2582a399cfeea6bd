// Collectives of a typed program, counted and weighed.
#include "launcher/plan/traffic.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep {

GroupShape group_shape(const Mesh& mesh, const std::vector<int>& dims, int64_t ranks_per_node) {
  std::vector<int64_t> members{0};
  for (int dim : dims) {
    int64_t stride = 1;
    for (size_t d = static_cast<size_t>(dim) + 1; d < mesh.shape.size(); ++d) stride *= mesh.shape[d];
    std::vector<int64_t> wider;
    for (int64_t member : members)
      for (int64_t i = 0; i < mesh.shape[dim]; ++i) wider.push_back(member + i * stride);
    members = std::move(wider);
  }
  const auto here =
      std::count_if(members.begin(), members.end(), [&](int64_t rank) { return rank < ranks_per_node; });
  return {static_cast<int64_t>(members.size()), static_cast<int64_t>(here)};
}

double travel_seconds(int64_t bytes, const GroupShape& group, const Roofline& roofline) {
  if (group.ranks < 2) return 0;
  const double away =
      static_cast<double>(group.ranks - group.per_node) / static_cast<double>(group.ranks - 1);
  const double sent = static_cast<double>(bytes);
  const double latency = away > 0 ? roofline.across.latency : roofline.inside.latency;
  return latency + std::max(sent * (1 - away) / roofline.inside.bandwidth,
                            away > 0 ? sent * away / roofline.across.bandwidth : 0.0);
}

double staged_seconds(int64_t bytes, int64_t across, const Roofline& roofline) {
  return roofline.inside.latency + static_cast<double>(bytes - across) / roofline.inside.bandwidth +
         roofline.across.latency + static_cast<double>(across) / roofline.across.bandwidth;
}

std::string dims_text(const Mesh& mesh, const std::vector<int>& dims) {
  std::vector<std::string> names;
  for (int dim : dims) names.push_back(mesh.dim_names[dim]);
  return join(names, " x ");
}

namespace {
bool is_lane_value(const Value& value) {
  return std::any_of(value.layout.splits.begin(), value.layout.splits.end(),
                     [](const auto& split) { return split.second.kind == Placement::Kind::per_lane; });
}
// What a rank of `n` sends of a collective whose inputs hold `bytes`, whole.
int64_t sent(const std::string& op, int64_t bytes, int64_t n) {
  return (op == "all_reduce" ? 2 : 1) * (bytes / n * (n - 1) + bytes % n * (n - 1) / n);
}
}  // namespace

std::vector<Transfer> transfers(const Phases& phases, const Mesh& mesh,
                                const std::vector<int64_t>& exchange_bytes, int64_t micro_batches) {
  const Graph& whole = phases.whole;
  const std::set<NodeId> head(phases.head.begin(), phases.head.end());
  std::set<NodeId> tail;
  for (const auto& step : phases.tail)
    if (step.node.valid()) tail.insert(step.node);
  std::vector<int> data;
  for (int d = 0; d < mesh.ndim(); ++d)
    if (is_data_dim(mesh.dim_names[d]) && mesh.shape[d] > 1) data.push_back(d);
  std::set<NodeId> streamed;  // inside of the body's executable: weight_gathers
  for (const auto& weight : phases.streamed) streamed.insert(weight.start);
  std::vector<Transfer> out;
  size_t exchange = 0;
  for (NodeId n : whole.node_ids()) {
    const Node& node = whole.node(n);
    const auto id = n;
    const Op& row = op_row(node.op);
    if (row.half != CollectiveHalf::start || streamed.count(id)) continue;
    Transfer transfer;
    transfer.op = row.verb;
    int64_t ranks = 1;
    if (node.op == ops::lane_exchange_start) {
      LS_CHECK(exchange < exchange_bytes.size(), "exchange ", exchange, " of ", exchange_bytes.size());
      transfer.dims = data;
      transfer.bytes = exchange_bytes[exchange++];
      transfer.moment = Transfer::Moment::exchange;
      for (int d : data) ranks *= mesh.shape[d];
    } else {
      const int dim = mesh.find(node.attrs.word("mesh_dim"));
      transfer.dims = dim < 0 ? data : std::vector<int>{dim};
      for (int d : transfer.dims) ranks *= mesh.shape[d];
      int64_t bytes = 0;
      for (ValueId v : node.inputs)
        bytes += numel(whole[v].shape) * static_cast<int64_t>(size_of(whole[v].dtype));
      transfer.bytes = sent(transfer.op, bytes, ranks);
      const bool in_body = !tail.count(id) && std::any_of(node.inputs.begin(), node.inputs.end(),
                                                          [&](ValueId v) { return is_lane_value(whole[v]); });
      transfer.moment = head.count(id)   ? Transfer::Moment::head
                        : tail.count(id) ? Transfer::Moment::tail
                        : in_body        ? Transfer::Moment::body
                                         : Transfer::Moment::count;
      if (in_body) transfer.times = micro_batches;
    }
    if (ranks > 1) out.push_back(std::move(transfer));
  }
  return out;
}

std::vector<Transfer> weight_gathers(const Phases& phases, const GatherPlan& plan, const Mesh& mesh,
                                     int64_t micro_batches) {
  std::vector<Transfer> out;
  if (phases.streamed.empty()) return out;
  const int dim = mesh.dim(phases.whole.node(phases.streamed[0].start).attrs.word("mesh_dim"));
  for (const auto& bucket : plan.buckets)
    out.push_back({"weight_gather",
                   {dim},
                   Transfer::Moment::body,
                   micro_batches,
                   sent("all_gather", bucket.bytes, mesh.shape[dim])});
  return out;
}

double exposed_gathers(const GatherPlan& plan, const std::vector<double>& calls,
                       const std::vector<double>& travel) {
  double now = 0, link = 0, waited = 0;
  size_t done = 0;
  double arrives = 0;  // of the bucket that is waited for next
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    if (b == 0) arrives = link = travel[0];
    for (; done < static_cast<size_t>(plan.buckets[b].wait); ++done) now += calls[done];
    if (arrives > now) waited += arrives - now, now = arrives;
    if (b + 1 < plan.buckets.size()) arrives = link = std::max(link, now) + travel[b + 1];
  }
  return waited;
}

}  // namespace lockstep
