// MPI as a world: ranks are processes, started by MPI's launcher.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "distributed/world.h"

namespace lockstep::distributed {

struct MpiOptions {
  double deadline_s = 0;  // of every group; 0: what LOCKSTEP_DEADLINE says (core/mesh/deadline.h)
  // Elements per MPI call; a larger collective is split into several calls. The same on every rank.
  int64_t max_count = 2147483647;
};

// Starts MPI with MPI_THREAD_MULTIPLE and one progress thread. Once per process. UserError when the library
// has no such level; PeerError when MPI cannot start. A world that ended by an error is left with
// World::leave: MPI_Finalize is never called after a PeerError.
std::shared_ptr<World> open_mpi_world(const MpiOptions& options = {});
// "Open MPI v4.1.4, package: ..." cut at the first comma: the library's name and version.
std::string mpi_library();
// UserError unless `provided` is MPI_THREAD_MULTIPLE.
void check_thread_level(int provided);

}  // namespace lockstep::distributed
