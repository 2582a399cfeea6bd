// NCCL as a Group: collectives on a CUDA device's memory, in stream order, also inside captured work.
#pragma once

#include <memory>
#include <string>

#include "core/device/cuda/cuda_device.h"
#include "core/mesh/group.h"
#include "distributed/nccl/nccl_library.h"

namespace lockstep::distributed {

// These groups add to Group's contract:
// - Buffers are in the device's memory. Helpers built on the verbs (agree, broadcast_text) and host buffers
//   need a host group.
// - start() and wait() enqueue and do not wait for peers. The exceptions are the first collectives, which
//   connect to the peers, and the barrier, whose wait() blocks the host. On a host stream (native() is null)
//   wait() blocks until the result is ready and enforces the deadline.
// - A send or receive is enqueued with the next wait(), or with the next collective. All that were started
//   before it form one launch, so a ring may start all sends before its receives. All operations of a group,
//   sends and receives included, run in the order of their starts, which must agree on all ranks. NCCL has no
//   tags: messages from one rank to another are received in the order in which they were sent.
// - Sums are in NCCL's own order: equal on all ranks and in all runs on the same machine, but different from
//   those of other groups.
// - In captured work, fork and join are events that the group keeps. Destroy the graph before the group, and
//   free its buffers after the graph.
// - After an error the communicator is aborted. Every later call throws PeerError with the first reason, and
//   the process must end by World::leave.

// Makes a group of the ranks of `bootstrap`, a host group; each rank has its own device. Collective over
// `bootstrap`, whose deadline the group takes. Throws UserError on every rank if one has no NCCL, PeerError
// if no communicator is made within the deadline. A group of one rank has no communicator
// (solo_device_group), unless `even_alone`.
std::shared_ptr<Group> nccl_group(cuda::CudaDevice& device, Group& bootstrap, const std::string& name,
                                  bool even_alone = false);
// Splits a group from nccl_group: ranks with the same color form a group, ordered by (key, rank). Collective
// over `parent`. Throws PeerError.
std::shared_ptr<Group> split_nccl_group(Group& parent, int color, int key, const std::string& name);
// Device memory in bytes that creating the communicator took, from the driver's counts before and after; 0
// for other groups. NCCL takes more with the first collective of each kind.
int64_t communicator_bytes(const Group& group);

}  // namespace lockstep::distributed
