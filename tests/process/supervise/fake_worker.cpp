// A worker with no training in it: reports a step every 20 ms, and fails on request, so that the supervisor
// is tested alone. fake_worker STEPS
// [throw-user|throw-peer|throw-stuck|throw-other|exit=CODE|deaf|grandchild|storm|mpi|mpi-early|mpi-never|mpi-abort]
// [RANK] [STEP]
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "launcher/supervise/worker/side.h"

using namespace lockstep;
using namespace lockstep::launcher;

namespace {
// What waits for a peer that is gone, as a stream or a world may in its destructor.
struct Waits {
  ~Waits() {
    std::puts("unwound");
    sleep(60);
  }
};
void throw_through(Waits&) { throw PeerError("rank 1 is gone"); }
}  // namespace

int main(int argc, char** argv) {
  return worker_main([&](const WorkerPlace& at) {
    int64_t steps = argc > 1 ? std::atoll(argv[1]) : 10;
    std::string what = argc > 2 ? argv[2] : "";
    int64_t rank = argc > 3 ? std::atoll(argv[3]) : 0, at_step = argc > 4 ? std::atoll(argv[4]) : 5;
    std::printf("start rank %d of %d restart %d threads %s\n", static_cast<int>(at.rank),
                static_cast<int>(at.world_size), static_cast<int>(at.restart),
                std::getenv("OMP_NUM_THREADS"));
    if (what == "grandchild" && fork() == 0) {
      signal(SIGTERM, SIG_IGN);
      sleep(60);
      _exit(0);
    }
    if (what == "mpi-never" && at.rank == rank) return kExitOk;
    bool mpi = what.rfind("mpi", 0) == 0;
    if (mpi) MPI_Init(nullptr, nullptr);
    for (int64_t step = 1; step <= steps; ++step) {
      report_step(step);
      if (at.rank == rank && step == at_step && at.restart == 0) {
        if (what == "throw-user") throw UserError("the data is wrong: got 3, want 4");
        if (what == "throw-peer") throw PeerError("rank 1 is gone");
        if (what == "throw-stuck") {
          Waits waits;
          throw_through(waits);
        }
        if (what == "throw-other") throw std::runtime_error("a stranger");
        if (what == "mpi-early") std::exit(0);
        if (what == "mpi-abort") MPI_Abort(MPI_COMM_WORLD, 5);
        if (what.rfind("exit=", 0) == 0) _exit(std::atoi(what.c_str() + 5));
      }
      if (at.rank == rank && what == "storm") throw PeerError(str("attempt ", at.restart + 1, " fails too"));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (stop_requested() && what != "deaf") {
        std::printf("saved at step %d\n", static_cast<int>(step));
        return kExitStopped;
      }
    }
    if (mpi) MPI_Finalize();
    std::printf("done rank %d\n", static_cast<int>(at.rank));
    return kExitOk;
  });
}
