// What a killed Open MPI of several hosts leaves on a host: segments of shared memory, and folders of its
// daemons.
#pragma once

#include <string>

namespace lockstep::launcher {

// Removes of this user and this host: files SHM/vader_segment.HOST.UID.JOB.RANK that no process of his has
// mapped or open, and folders TEMPORARY/ompi.HOST.UID/pid.N whose process N has gone; both older than a
// minute, since one that is younger may be about to be used. Links are left. Returns how many. Each host does
// so for itself: its first rank, before MPI starts.
int remove_left_by_mpi(const std::string& host, const std::string& shm = "/dev/shm",
                       const std::string& temporary = "");  // "": TMPDIR, or /tmp

}  // namespace lockstep::launcher
