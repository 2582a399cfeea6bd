// What the ranks of a host take of this process's limits and of the memory that they share, compared before
// one is started: Open MPI ends with words of its own, and without a way out.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher {

// UserError where `ulimit -d` or `-s` cannot hold a rank, be it a process or a thread.
void require_memory_limits();
// UserError where `ulimit -u` leaves this user, whose processes and threads are counted, too few for `nproc`
// ranks of `threads` that compute, and their launcher; root has no such limit, and a soft one is raised.
void require_tasks(int64_t nproc, int64_t threads);
// UserError where `ulimit -n`, `-v` or `-f` cannot hold `nproc` ranks and their launcher; a soft limit of
// files is raised as far as it takes. For 2 ranks and more.
void require_limits(int64_t nproc);

// Bytes of shared memory that MPI takes for the ranks of a host.
int64_t shared_bytes(int64_t nproc);
// What is free in a folder's file system; the largest number where it has no limit, 0 where it cannot be
// asked.
int64_t free_bytes_in(const std::string& folder);

}  // namespace lockstep::launcher
