// Makes groups for buffers in device memory from groups for buffers in host memory. Compiles without CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device/device.h"
#include "core/mesh/group.h"

namespace lockstep::distributed {

// The ranks of `host` as a group for buffers in the memory of `device`. Collective over `host`. Returns:
// - if the host addresses the device's memory: `host` itself;
// - for one rank: copies on the device's streams, without a communicator;
// - for CUDA: NCCL (distributed/nccl/nccl_group.h). Throws UserError on all ranks if one of them cannot open
//   NCCL, PeerError if no communicator is made within the deadline;
// - for other devices, from plugins: staged_group.
// The device must outlive the group, and the group must outlive captured work with its collectives.
std::shared_ptr<Group> device_group(Device& device, const std::shared_ptr<Group>& host);
// Splits `parent`, a result of device_group: ranks with the same color form a group, ordered by (key, rank in
// parent). `host` is the host group of the new group's ranks. Collective over `parent`, except that groups of
// one rank make no call; then all ranks must be in such a group.
std::shared_ptr<Group> split_device_group(Device& device, const std::shared_ptr<Group>& parent,
                                          const std::shared_ptr<Group>& host, int color, int key);

}  // namespace lockstep::distributed
