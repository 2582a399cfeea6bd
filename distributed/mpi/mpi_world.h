// The MPI world: ranks are processes that MPI's launcher started.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "distributed/world.h"

namespace lockstep::distributed {

struct MpiOptions {
  double deadline_s = 0;  // deadline of every group; 0: that of LOCKSTEP_DEADLINE (core/mesh/deadline.h)
  // Elements per MPI call; a larger collective is split into several calls. The same on every rank.
  int64_t max_count = 2147483647;
};

// Starts MPI with MPI_THREAD_MULTIPLE and one progress thread; call it once per process. Throws UserError if
// the library lacks this level, PeerError if MPI cannot start. After an error leave the world by
// World::leave: MPI_Finalize is never called after a PeerError.
std::shared_ptr<World> open_mpi_world(const MpiOptions& options = {});
// "Open MPI v4.1.4, package: ..." cut at the first comma: the library's name and version.
std::string mpi_library();
// Throws UserError unless `provided` is MPI_THREAD_MULTIPLE.
void check_thread_level(int provided);

}  // namespace lockstep::distributed
