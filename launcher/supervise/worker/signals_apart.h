// SignalsApart: a dedicated thread that receives the process's signals, so that no handler interrupts a
// computing thread. A handler's frame on the stack of a thread within a step sometimes corrupts the heap
// (measured: about 1 SIGTERM in 20; never with the frame elsewhere), as if code kept data below its stack
// pointer.
#pragma once

#include <signal.h>

#include <condition_variable>
#include <initializer_list>
#include <mutex>
#include <thread>

namespace lockstep::launcher {

class SignalsApart {
 public:
  // Blocks the signals for the calling thread and all threads that it starts from now on, except the
  // receiving one. The caller sets the handlers. Processes started meanwhile inherit the mask.
  explicit SignalsApart(std::initializer_list<int> signals);
  ~SignalsApart();  // the calling thread receives them again
  SignalsApart(const SignalsApart&) = delete;
  SignalsApart& operator=(const SignalsApart&) = delete;

 private:
  sigset_t before_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread ears_;
};

// SIGTERM, SIGINT and SIGHUP (unless ignored) still end this process, but unfinished work is undone first
// (undo_unfinished). Stays in effect until the process ends.
void undo_on_signals();

}  // namespace lockstep::launcher
