// Builds the live mesh: compares the ranks' meshes first, then splits off each group that does not exist yet.
#include "distributed/mesh/device_mesh.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/mesh/fingerprint.h"
#include "distributed/device_group.h"
#include "distributed/staged_group.h"

namespace lockstep::distributed {

namespace {
void compare_words(Group& world, const Mesh& words) {
  compare(world, "before the ranks are grouped",
          {{"mesh", {{"", text(words)}}, "start every rank with the same config"}});
  if (words.size() != world.size())
    throw UserError(str("mesh ", text(words), " has ", words.size(), " places, but there are ", world.size(),
                        " ranks; start with --nproc ", words.size(), " or change mesh.shape"));
}

// The position of `rank` among the ranks with equal coordinates in all dims but `dims`, row-major over
// `dims`; and the number of this set.
std::pair<int, int> key_and_color(const Mesh& words, int64_t rank, const std::vector<int>& dims) {
  auto at = words.coordinate(rank);
  int64_t key = 0, color = 0;
  for (int d = 0; d < words.ndim(); ++d) {
    bool varies = std::find(dims.begin(), dims.end(), d) != dims.end();
    int64_t& out = varies ? key : color;
    out = out * words.shape[d] + at[d];
  }
  return {static_cast<int>(key), static_cast<int>(color)};
}
}  // namespace

DeviceMesh::DeviceMesh(std::shared_ptr<World> world, const Mesh& words, Device* device)
    : world_(std::move(world)) {
  compare_words(*world_->group(), words);
  live_.words = words;
  live_.rank = world_->rank();
  live_.world = world_->group();
  std::vector<int> data_dims;
  for (int d = 0; d < words.ndim(); ++d) {
    live_.groups.push_back(group_over({d}, words.dim_names[d]));
    if (is_data_dim(words.dim_names[d])) data_dims.push_back(d);
  }
  live_.data = group_over(data_dims, "data");
  if (device && !device->addressable()) {
    device_ = device;
    for (int d = 0; d < words.ndim(); ++d)
      live_.device_groups.push_back(device_group_over({d}, live_.groups[d]));
    live_.device_data = device_group_over(data_dims, live_.data);
  }
}

std::vector<int> DeviceMesh::wide_dims(const std::vector<int>& dims) const {
  std::vector<int> wide;
  for (int d : dims)
    if (live_.words.shape[d] > 1) wide.push_back(d);
  std::sort(wide.begin(), wide.end());
  return wide;
}

std::shared_ptr<Group> DeviceMesh::group_over(const std::vector<int>& dims, const std::string& name) {
  std::vector<int> wide = wide_dims(dims);
  int64_t ranks = 1;
  for (int d : wide) ranks *= live_.words.shape[d];
  if (ranks == 1) return solo_group(name);
  if (ranks == world_->size()) return live_.world;
  auto& group = groups_[wide];
  if (!group) {
    auto [key, color] = key_and_color(live_.words, live_.rank, wide);
    group = world_->split(color, key, name);
    LS_CHECK(group->size() == ranks && group->rank() == key, "group \"", name, "\": rank ", group->rank(),
             " of ", group->size(), ", expected ", key, " of ", ranks);
  }
  return group;
}

std::shared_ptr<Group> DeviceMesh::device_group_over(const std::vector<int>& dims,
                                                     const std::shared_ptr<Group>& host) {
  if (host->size() == 1) return solo_device_group(*device_, host->name());
  if (!device_world_) device_world_ = distributed::device_group(*device_, live_.world);
  std::vector<int> wide = wide_dims(dims);
  auto& group = device_groups_[wide];
  if (!group) {
    auto [key, color] = key_and_color(live_.words, live_.rank, wide);
    group = split_device_group(*device_, device_world_, host, color, key);
    LS_CHECK(group->size() == host->size() && group->rank() == host->rank(), "device group \"", group->name(),
             "\": rank ", group->rank(), " of ", group->size(), ", on the host ", host->rank(), " of ",
             host->size());
  }
  return group;
}

std::shared_ptr<Group> DeviceMesh::device_group(const std::string& dim_name) {
  int d = live_.words.dim(dim_name);
  return device_ ? device_group_over({d}, live_.groups[d]) : live_.groups[d];
}

std::shared_ptr<Group> DeviceMesh::group(const std::string& dim_name) const {
  return live_.groups[live_.words.dim(dim_name)];
}

std::shared_ptr<Group> DeviceMesh::flatten(const std::vector<std::string>& dim_names) {
  std::vector<int> dims;
  for (const auto& dim_name : dim_names) {
    int d = live_.words.dim(dim_name);
    if (std::find(dims.begin(), dims.end(), d) != dims.end())
      throw UserError(str("mesh dim \"", dim_name, "\" is named twice in [", join(dim_names, ", "),
                          "]; name each dim once"));
    dims.push_back(d);
  }
  return group_over(dims, join(dim_names, "_"));
}

LiveMesh DeviceMesh::slice(const std::vector<std::string>& dim_names) {
  LiveMesh out;
  out.words = {{}, {}};
  auto at = live_.coordinate();
  std::vector<int64_t> within;
  std::vector<std::string> data_names;
  int last = -1;
  for (const auto& dim_name : dim_names) {
    int d = live_.words.dim(dim_name);
    if (d <= last)
      throw UserError(str("mesh slice [", join(dim_names, ", "), "] is out of order; the mesh is ",
                          text(live_.words), ": name its dims in that order, each once"));
    last = d;
    out.words.shape.push_back(live_.words.shape[d]);
    out.words.dim_names.push_back(dim_name);
    out.groups.push_back(live_.groups[d]);
    within.push_back(at[d]);
    if (is_data_dim(dim_name)) data_names.push_back(dim_name);
  }
  out.rank = out.words.rank_of(within);
  out.world = flatten(dim_names);
  out.data = data_names.empty() ? solo_group("data") : flatten(data_names);
  if (device_) {
    std::vector<int> data_dims;
    for (const auto& data_name : data_names) data_dims.push_back(live_.words.dim(data_name));
    for (const auto& dim_name : dim_names) out.device_groups.push_back(device_group(dim_name));
    out.device_data = device_group_over(data_dims, out.data);
  }
  return out;
}

namespace {
// The groups of a rank inside its host and across hosts, among the ranks of one data group.
struct NodePlace {
  int inside = 0, across = 0, key = 0;  // colors of the two splits, and the key in both
};
NodePlace place_among_nodes(const LiveMesh& mesh) {
  std::vector<int> data_dims;
  for (int d = 0; d < mesh.words.ndim(); ++d)
    if (is_data_dim(mesh.words.dim_names[d])) data_dims.push_back(d);
  const auto [data_rank, group] = key_and_color(mesh.words, mesh.rank, data_dims);
  const int hosts = static_cast<int>(mesh.words.data_size()) / mesh.seats;
  return {group * hosts + data_rank / mesh.seats, group * mesh.seats + data_rank % mesh.seats, data_rank};
}
}  // namespace

void join_nodes(LiveMesh& mesh, World& world, int64_t ranks_per_node, int seats) {
  mesh.ranks_per_node = ranks_per_node;
  mesh.seats = seats;
  if (!seats) return;
  const NodePlace at = place_among_nodes(mesh);
  mesh.inside = world.split(at.inside, at.key, "inside hosts");
  mesh.across = world.split(at.across, at.key, "across hosts");
}

void join_device(LiveMesh& mesh, Device& device, const MakeDeviceGroup& own) {
  if (device.addressable()) return;
  std::shared_ptr<Group> world;
  std::map<std::vector<int>, std::shared_ptr<Group>> made;  // by the dims of size > 1 that vary in them
  auto over = [&](std::vector<int> dims, const std::shared_ptr<Group>& host) {
    if (host->size() == 1) return solo_device_group(device, host->name());
    dims.erase(std::remove_if(dims.begin(), dims.end(), [&](int d) { return mesh.words.shape[d] == 1; }),
               dims.end());
    auto& group = made[dims];
    if (!group && own) group = own(device, *host);
    if (!group) {
      if (!world) world = device_group(device, mesh.world);
      auto [key, color] = key_and_color(mesh.words, mesh.rank, dims);
      group = split_device_group(device, world, host, color, key);
    }
    return group;
  };
  std::vector<int> data_dims;
  mesh.device_groups.clear();
  for (int d = 0; d < mesh.words.ndim(); ++d) {
    mesh.device_groups.push_back(over({d}, mesh.groups[d]));
    if (is_data_dim(mesh.words.dim_names[d])) data_dims.push_back(d);
  }
  mesh.device_data = over(data_dims, mesh.data);
  if (!mesh.inside) return;
  const NodePlace at = place_among_nodes(mesh);
  const NodeRanks ranks = node_ranks(mesh.words, mesh.rank, mesh.seats);
  auto split = [&](const std::vector<int64_t>& members, int color, const std::shared_ptr<Group>& host) {
    if (int d = dim_of(mesh.words, mesh.rank, members); d >= 0) return mesh.device_groups[d];
    std::shared_ptr<Group> group = own ? own(device, *host) : nullptr;
    if (group) return group;
    if (!world) world = device_group(device, mesh.world);
    return split_device_group(device, world, host, color, at.key);
  };
  mesh.device_inside = split(ranks.inside, at.inside, mesh.inside);
  mesh.device_across = split(ranks.across, at.across, mesh.across);
}

LiveMesh live_mesh(std::shared_ptr<World> world, const Mesh& words) {
  return DeviceMesh(std::move(world), words).live();
}
LiveMesh live_mesh(std::shared_ptr<World> world, const Mesh& words, Device& device) {
  return DeviceMesh(std::move(world), words, &device).live();
}

}  // namespace lockstep::distributed
