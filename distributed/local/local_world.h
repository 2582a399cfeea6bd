// Ranks as threads in one process, for tests, benchmarks and simulation. Reductions run in rank order, so
// results are deterministic.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "distributed/world.h"

namespace lockstep::distributed {

struct LocalOptions {
  // Simulated latency: seconds that a collective takes after its last rank has started it
  double latency_s = 0;
  // Simulated bandwidth: a group carries the bytes of its largest rank at this rate, one collective after
  // another. 0: unbounded.
  double bytes_per_s = 0;
  double deadline_s = 0;  // deadline of every group; 0: that of LOCKSTEP_DEADLINE
};

// Runs `fn` on n threads, each with the group "world" of n ranks, and returns when all have ended. Rethrows
// the earliest exception. If a rank throws, or ends while others wait for it, their collectives throw
// PeerError, so no rank hangs. All ranks must start the same collectives in the same order and with the same
// labels; a difference is a PeerError that names both ranks and both sites. send waits for its recv. Dropping
// a Work before its wait is a PeerError for the peers.
void with_ranks(int n, const std::function<void(Group&)>& fn, const LocalOptions& options = {});
// The same with a live mesh [dp_replicate=n] per rank.
void with_ranks(int n, const std::function<void(LiveMesh&)>& fn, const LocalOptions& options = {});
// The same with a World per rank, which can be split.
void with_world(int n, const std::function<void(std::shared_ptr<World>)>& fn,
                const LocalOptions& options = {});
// The same with a live mesh of this shape per rank: a group per mesh dim, and the data group. Throws
// InternalError unless the mesh has n ranks.
void local_mesh(int n, const Mesh& words, const std::function<void(LiveMesh&)>& fn,
                const LocalOptions& options = {});

}  // namespace lockstep::distributed
