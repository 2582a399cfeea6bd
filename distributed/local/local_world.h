// Ranks as threads in one process: for tests, benchmarks and simulation. Reductions are done in rank order,
// so results are deterministic.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "distributed/world.h"

namespace lockstep::distributed {

struct LocalOptions {
  double latency_s = 0;  // seconds that every collective takes after its last rank has started it
  // Simulated bandwidth: a group carries the bytes of its largest rank at this rate, one collective after
  // another. 0: unbounded.
  double bytes_per_s = 0;
  double deadline_s = 0;  // of every group; 0: what LOCKSTEP_DEADLINE says
};

// Runs `fn` on n threads, each with the group "world" of n ranks, and returns when all have ended. The first
// exception in time is thrown again here. A rank that throws, or that ends while others wait for it, makes
// their collectives a PeerError: nobody hangs. Collectives of the groups must be the same on all ranks, in
// the same order and with the same labels; a difference is a PeerError that names both ranks and both sites.
// send waits for its recv. A Work that is dropped before its wait is a PeerError for its peers.
void with_ranks(int n, const std::function<void(Group&)>& fn, const LocalOptions& options = {});
// The same with a live mesh [dp_replicate=n] per rank.
void with_ranks(int n, const std::function<void(LiveMesh&)>& fn, const LocalOptions& options = {});
// The same with the world of each rank, to split at will.
void with_world(int n, const std::function<void(std::shared_ptr<World>)>& fn,
                const LocalOptions& options = {});
// The same with a live mesh of these words per rank: a group per mesh dim, and the data group. InternalError
// unless words has n places.
void local_mesh(int n, const Mesh& words, const std::function<void(LiveMesh&)>& fn,
                const LocalOptions& options = {});

}  // namespace lockstep::distributed
