// DeviceMesh: the live mesh. Mesh words over a world, one Group per mesh dim.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "distributed/world.h"

namespace lockstep::distributed {

// Every call is collective over the world unless it says otherwise: all ranks make the same calls in the same
// order.
class DeviceMesh {
 public:
  // Compares the words of all ranks in one message of fixed size, before any split, then makes the groups: a
  // dim of size 1 costs no communicator, and dims that hold the same ranks share one group. UserError naming
  // the ranks and both meshes when they differ, and when the mesh does not have as many places as the world
  // has ranks. PeerError from the world. With a device whose memory the host does not address,
  // live().device_data is the group of the data dims for buffers there; UserError and PeerError as
  // device_group.
  DeviceMesh(std::shared_ptr<World> world, const Mesh& words, Device* device = nullptr);

  const LiveMesh& live() const { return live_; }     // not collective
  const Mesh& words() const { return live_.words; }  // not collective
  // The group of a dim. Not collective. UserError listing the dims for an unknown name.
  std::shared_ptr<Group> group(const std::string& dim_name) const;
  // The ranks that differ from this one in `dim_names` only, as one group, row-major in mesh order; reused
  // when it exists. UserError for unknown or repeated names.
  std::shared_ptr<Group> flatten(const std::vector<std::string>& dim_names);
  // The group of a dim for buffers in the device's memory: the host's own where the host addresses it, or
  // where the mesh has no device. One communicator per set of ranks, split from that of the world, none for a
  // dim of size 1. UserError for an unknown name.
  std::shared_ptr<Group> device_group(const std::string& dim_name);
  // The mesh of some dims, as this rank sees it: its `rank` and `world` are those within the slice. Names
  // must stand in mesh order.
  LiveMesh slice(const std::vector<std::string>& dim_names);
  LiveMesh operator[](const std::string& dim_name) { return slice({dim_name}); }

 private:
  std::shared_ptr<Group> group_over(const std::vector<int>& dims, const std::string& name);
  std::shared_ptr<Group> device_group_over(const std::vector<int>& dims, const std::shared_ptr<Group>& host);
  // Sorted, without the dims of size 1: this list identifies the set of ranks.
  std::vector<int> wide_dims(const std::vector<int>& dims) const;

  std::shared_ptr<World> world_;
  Device* device_ = nullptr;
  LiveMesh live_;
  // By the dims of size > 1 that vary in the group.
  std::map<std::vector<int>, std::shared_ptr<Group>> groups_, device_groups_;
  std::shared_ptr<Group> device_world_;  // null until the first device group of more than one rank
};

// The live mesh alone, for those who need no slices.
LiveMesh live_mesh(std::shared_ptr<World> world, const Mesh& words);
// The same with the device's group of the data dims, where the device needs one (see DeviceMesh). `device`
// outlives the mesh.
LiveMesh live_mesh(std::shared_ptr<World> world, const Mesh& words, Device& device);

// Gives a mesh on hosts of `ranks_per_node` ranks its groups inside and across hosts of `seats` data ranks
// (of data_ranks_per_node); none for 0. Collective. Before join_device.
void join_nodes(LiveMesh& mesh, World& world, int64_t ranks_per_node, int seats);

// Gives a mesh that was made before its device was known the groups of its dims and of its data dims for
// buffers in the device's memory. Collective over mesh.world; does nothing where the host addresses the
// device's memory. One communicator per set of ranks, by split; `own` (where there is one: a device from
// outside the tree may bring its links) makes each group from the host's instead.
using MakeDeviceGroup = std::function<std::shared_ptr<Group>(Device& device, Group& host)>;
void join_device(LiveMesh& mesh, Device& device, const MakeDeviceGroup& own = {});

}  // namespace lockstep::distributed
