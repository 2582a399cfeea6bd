// Links: counts the members of groups by node.
#include "launcher/plan/links.h"

#include <algorithm>

#include "core/base/text.h"

namespace lockstep::launcher {

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

std::vector<int> dims_along(const std::string& along, const Mesh& mesh) {
  std::vector<int> dims;
  const int one = mesh.find(along);
  for (int d = 0; d < mesh.ndim(); ++d)
    if (mesh.shape[d] > 1 && (one < 0 ? is_data_dim(mesh.dim_names[d]) : d == one)) dims.push_back(d);
  return dims;
}

GroupShape link_shape(const std::string& along, const Mesh& mesh, int seats, int64_t ranks_per_node) {
  if (along == "inside_hosts") return {seats, seats};
  if (along == "across_hosts") return {mesh.data_size() / seats, 1};
  return group_shape(mesh, dims_along(along, mesh), ranks_per_node);
}

std::string dims_text(const Mesh& mesh, const std::vector<int>& dims) {
  std::vector<std::string> names;
  for (int dim : dims) names.push_back(mesh.dim_names[dim]);
  return join(names, " x ");
}

}  // namespace lockstep::launcher
