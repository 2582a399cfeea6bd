// The front door of this wing: all ranks of the run that this process belongs to.
#pragma once

#include <memory>
#include <string>

#include "distributed/world.h"

namespace lockstep::distributed {

// The world that this process was launched into: MPI's where the environment says so (OMPI_COMM_WORLD_SIZE,
// PMI_SIZE or PMIX_RANK is set), else a world of one that never touches MPI. At most one per process is open
// under MPI. UserError when the MPI library has no MPI_THREAD_MULTIPLE, and where RANK and WORLD_SIZE or
// Slurm's variables speak of several ranks that have no way to talk (no PMI or MPI); PeerError when it cannot
// start.
std::shared_ptr<World> open_world();
std::shared_ptr<World> solo_world();
// The library that carries the messages of open_world(), with its version; "none" for a world of one.
std::string world_library();
// True when open_world() would join MPI.
bool launched_under_mpi();

}  // namespace lockstep::distributed
