// Groups whose buffers are in a device's memory, made from groups whose buffers are in the host's. Compiles
// without CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device/device.h"
#include "core/mesh/group.h"

namespace lockstep::distributed {

// The ranks of `host` as a group for buffers in the memory of `device`. Collective over `host`.
// - the host addresses the device's memory: `host` itself;
// - one rank: copies on the device's streams, no communicator;
// - CUDA: NCCL (distributed/nccl/nccl_group.h). UserError on all ranks when one of them cannot open NCCL,
// PeerError when no communicator
//   could be made within the deadline;
// - else, a device from a plugin: staged_group.
// The device outlives the group; captured work that holds its collectives does not.
std::shared_ptr<Group> device_group(Device& device, const std::shared_ptr<Group>& host);
// The ranks of `parent`, a group that device_group gave, that give the same color, ordered by (key, rank in
// parent). `host` is the host group of the same ranks. Collective over `parent`, except that no call is made
// of groups of one rank: all ranks must then be in such a group.
std::shared_ptr<Group> split_device_group(Device& device, const std::shared_ptr<Group>& parent,
                                          const std::shared_ptr<Group>& host, int color, int key);

}  // namespace lockstep::distributed
