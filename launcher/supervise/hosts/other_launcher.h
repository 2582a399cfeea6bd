// Supports ranks started by another launcher such as torchrun, which sets only RANK, WORLD_SIZE and
// MASTER_ADDR. The first process of each host becomes a trainrun for all ranks of its host; the others wait
// until it has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

struct OtherLauncher {
  int64_t rank = 0, ranks = 1;
  int64_t local_rank = 0, local_ranks = 1;        // of this host
  std::string address;                            // address of rank 0
  int64_t port = 29500;                           // the launcher itself may listen on it
  bool first() const { return local_rank == 0; }  // of this host
};

// Reads RANK and its companions. Without LOCAL_WORLD_SIZE, all ranks are on this host if MASTER_ADDR is a
// loopback address, else each host has one. nullopt under trainrun, mpirun and srun, without MASTER_ADDR, and
// for one rank. UserError when they are inconsistent, or hosts have different numbers of ranks.
std::optional<OtherLauncher> other_launcher();

// The flags of the first process's trainrun. Its port is the launcher's plus one.
std::vector<std::string> flags_of(const OtherLauncher& other);
// Makes the host's other processes wait until this process, including after exec, has ended. Removes the
// launcher's variables from the environment. UserError when the host already has a first process.
void be_first(const OtherLauncher& other, bool execs);
// Waits until this host's first process has ended; only that one acts on stop signals. UserError when it does
// not appear within the start deadline.
void wait_for_first(const OtherLauncher& other);

// Called first in a user program: the first process becomes trainrun and does not return; the others exit
// when it has ended. Returns if no other launcher started the program, or if there is no trainrun in PATH or
// next to LOCKSTEP_PYTHON.
void join_other_launcher(const std::vector<std::string>& command);

}  // namespace lockstep::launcher
