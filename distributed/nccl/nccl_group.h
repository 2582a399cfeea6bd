// NCCL as a Group: collectives of a CUDA device's memory, in order with its streams, also inside captured
// work.
#pragma once

#include <memory>
#include <string>

#include "core/device/cuda/cuda_device.h"
#include "core/mesh/group.h"
#include "distributed/nccl/nccl_library.h"

namespace lockstep::distributed {

// What holds of these groups beyond Group's contract:
// - Buffers are in the device's memory. The words over the verbs (agree, broadcast_text) and host buffers
// belong to a host group.
// - start() and wait() enqueue and do not wait for peers, except for the first collectives, which connect to
// them, and the barrier, whose
//   wait() blocks the host. On a stream of the host (native() is null) wait() blocks until the result is
//   there and keeps the deadline.
// - A send or receive is enqueued with the next wait(), or with the next collective: those started before it
// travel together, so a ring may
//   start all sends before its receives. Everything else of a group runs in the order of its starts, sends
//   and receives included, which must agree on all ranks. NCCL carries no tags: messages from one rank to
//   another are received in the order in which they were sent.
// - Sums are in NCCL's own order: the same on all ranks and from run to run on the same machine, but not
// those of another group.
// - Captured: fork and join are events, kept by the group. The graph must be gone before the group, and its
// buffers after the graph.
// - After an error the communicator is aborted; every later call throws PeerError with the first reason, and
// the process ends by World::leave.

// The ranks of `bootstrap`, a group on host memory, each with a device of its own. Collective over it.
// UserError on every rank when one has no NCCL; PeerError when no communicator is made within its deadline.
// The deadline of the group is that of `bootstrap`. A group of one rank has no communicator
// (solo_device_group), unless `even_alone`.
std::shared_ptr<Group> nccl_group(cuda::CudaDevice& device, Group& bootstrap, const std::string& name,
                                  bool even_alone = false);
// Splits a group that nccl_group gave: ranks with the same color, ordered by (key, rank). Collective over it.
// PeerError.
std::shared_ptr<Group> split_nccl_group(Group& parent, int color, int key, const std::string& name);
// Bytes of device memory that making the communicator took, as the driver counted before and after; 0 for
// other groups. NCCL takes more with the first collectives of a new kind.
int64_t communicator_bytes(const Group& group);

}  // namespace lockstep::distributed
