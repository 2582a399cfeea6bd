// Ranks that another launcher started, as torchrun does: by RANK, WORLD_SIZE and MASTER_ADDR alone. The first
// process of each host becomes a trainrun of all ranks of its host, and the others wait until it has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launcher {

struct OtherLauncher {
  int64_t rank = 0, ranks = 1;
  int64_t local_rank = 0, local_ranks = 1;        // of this host
  std::string address;                            // where rank 0 is reached
  int64_t port = 29500;                           // on which the launcher itself may listen
  bool first() const { return local_rank == 0; }  // of this host
};

// What RANK and its companions say. Without LOCAL_WORLD_SIZE all ranks are of this host where MASTER_ADDR is
// a loopback address, and one of each host elsewhere. Nothing under trainrun, mpirun and srun, without
// MASTER_ADDR, and for one rank. UserError where they contradict one another, or hosts have different
// numbers.
std::optional<OtherLauncher> other_launcher();

// The flags of the first process's trainrun. Its port is the one behind the launcher's.
std::vector<std::string> flags_of(const OtherLauncher& other);
// From here on, until this process and what it becomes by exec have ended, the others of the host wait for
// it. Takes the launcher's variables out of the environment. UserError where the host has another first
// process.
void be_first(const OtherLauncher& other, bool execs);
// Until the first process of this host has ended; signals to stop are its. UserError where there is none
// within the deadline of the start.
void wait_for_first(const OtherLauncher& other);

// Of a program of the user's own, before it is anything else: the first process becomes trainrun and does not
// return, the others leave when it has ended. Returns where no other launcher started it, or no trainrun is
// in PATH, or beside LOCKSTEP_PYTHON.
void join_other_launcher(const std::vector<std::string>& command);

}  // namespace lockstep::launcher
