// DeviceMesh: a mesh over a world, with one Group per mesh dim.
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
  // Compares the meshes of all ranks in one message of fixed size, before any split, then makes the groups. A
  // dim of size 1 needs no communicator, and dims with the same ranks share one group. Throws UserError if
  // meshes differ (naming the ranks and both meshes) or the mesh does not have the world's number of ranks,
  // and PeerError from the world. If the host does not address the device's memory, live().device_data is the
  // group of the data dims for buffers there; errors as device_group.
  DeviceMesh(std::shared_ptr<World> world, const Mesh& words, Device* device = nullptr);

  const LiveMesh& live() const { return live_; }     // not collective
  const Mesh& words() const { return live_.words; }  // not collective
  // The group of a dim. Not collective. Throws UserError, listing the dims, for an unknown name.
  std::shared_ptr<Group> group(const std::string& dim_name) const;
  // One group of the ranks that differ from this one only in `dim_names`, row-major in mesh order; reused if
  // it exists. Throws UserError for unknown or repeated names.
  std::shared_ptr<Group> flatten(const std::vector<std::string>& dim_names);
  // The group of a dim for buffers in device memory; the host group if the host addresses that memory or the
  // mesh has no device. There is one communicator per set of ranks, split from that of the world, and none
  // for a dim of size 1. Throws UserError for an unknown name.
  std::shared_ptr<Group> device_group(const std::string& dim_name);
  // The mesh of some dims for this rank: `rank` and `world` are relative to the slice. Names must be in mesh
  // order.
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

// Only the live mesh, for callers that need no slices.
LiveMesh live_mesh(std::shared_ptr<World> world, const Mesh& words);
// The same with the device group of the data dims, if the device needs one (see DeviceMesh). `device` must
// outlive the mesh.
LiveMesh live_mesh(std::shared_ptr<World> world, const Mesh& words, Device& device);

// Adds to a mesh on hosts of `ranks_per_node` ranks the groups inside and across hosts. `seats` is the number
// of data ranks per host (from data_ranks_per_node); 0 adds none. Collective. Call before join_device.
void join_nodes(LiveMesh& mesh, World& world, int64_t ranks_per_node, int seats);

// Adds to a mesh that was made before its device was known the groups of its dims and data dims for buffers
// in device memory. Collective over mesh.world; does nothing if the host addresses that memory. One
// communicator per set of ranks is split off. `own`, if given, makes each group from the host group instead,
// for plugin devices with their own links.
using MakeDeviceGroup = std::function<std::shared_ptr<Group>(Device& device, Group& host)>;
void join_device(LiveMesh& mesh, Device& device, const MakeDeviceGroup& own = {});

}  // namespace lockstep::distributed
