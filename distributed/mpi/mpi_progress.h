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

// Open MPI moves data only inside calls, so somebody must test. One thread per process does, in this rhythm:
// asleep while nothing is in flight; a burst of tests with yields after each event; then tests with short
// sleeps in between, since there may be more ranks than cores.
class MpiProgress {
 public:
  MpiProgress();
  ~MpiProgress();
  // Ends the thread, so that MPI is not called any more: what is in flight fails with `reason`, and so does
  // what is submitted later.
  void stop(const std::string& reason);
  // Hands over a collective; it is issued in the order of these calls. PeerError after halt().
  void submit(std::shared_ptr<MpiFlight> flight);
  // No collective can complete any more (a deadline passed, MPI failed, a Work was dropped): everything in
  // flight fails with `reason`, MPI is not called again by this thread, and the process must end by
  // World::leave. The first call counts.
  void halt(const std::string& reason);
  bool halted();

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<MpiFlight>> submitted_;
  bool stopping_ = false;
  std::string halted_;  // the reason; empty: all is well
  std::thread thread_;
};

}  // namespace lockstep::distributed
