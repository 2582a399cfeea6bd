// Opens the world: all ranks of the run that this process belongs to. The entry point of this wing.
#pragma once

#include <memory>
#include <string>

#include "distributed/world.h"

namespace lockstep::distributed {

// Opens the world that this process was launched into: MPI's if OMPI_COMM_WORLD_SIZE, PMI_SIZE or PMIX_RANK
// is set, else a world of one rank that never calls MPI. Under MPI a process can open only one. Throws
// UserError if the MPI library lacks MPI_THREAD_MULTIPLE, or if RANK and WORLD_SIZE or Slurm's variables
// describe several ranks that cannot communicate (no PMI or MPI). Throws PeerError if MPI cannot start.
std::shared_ptr<World> open_world();
std::shared_ptr<World> solo_world();
// The communication library of open_world(), with its version; "none" for a world of one.
std::string world_library();
// True when open_world() would join MPI.
bool launched_under_mpi();

}  // namespace lockstep::distributed
