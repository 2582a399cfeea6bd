// The progress thread: the only thread that starts and tests collectives over MPI.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "distributed/mpi/mpi_flight.h"

namespace lockstep::distributed {

// Open MPI moves data only inside calls, so one thread per process calls it. The thread sleeps while nothing
// is in flight. After each event it tests in a burst, yielding between tests; then it tests with short sleeps
// in between, since there may be more ranks than cores.
class MpiProgress {
 public:
  MpiProgress();
  ~MpiProgress();
  // Ends the thread, so that it no longer calls MPI. Collectives in flight, and those submitted later, fail
  // with `reason`.
  void stop(const std::string& reason);
  // Submits a collective; collectives are issued in the order of these calls. Throws PeerError after halt().
  void submit(std::shared_ptr<MpiFlight> flight);
  // Call when no collective can complete any more: a deadline passed, MPI failed, or a Work was dropped.
  // Everything in flight fails with `reason`, this thread no longer calls MPI, and the process must end by
  // World::leave. The first call counts.
  void halt(const std::string& reason);
  bool halted();

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<MpiFlight>> submitted_;
  bool stopping_ = false;
  std::string halted_;  // the reason; empty: not halted
  std::thread thread_;
};

}  // namespace lockstep::distributed
