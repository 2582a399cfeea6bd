// SignalsApart: a thread of its own on which a process hears signals, so that no handler interrupts a thread
// that computes. The frame of a handler on the stack of a thread within a step corrupts the heap now and then
// (measured: about 1 SIGTERM in 20; never with the frame elsewhere), as code would that keeps data below its
// stack pointer.
#pragma once

#include <signal.h>

#include <condition_variable>
#include <initializer_list>
#include <mutex>
#include <thread>

namespace lockstep::launcher {

class SignalsApart {
 public:
  // Blocks the signals for the calling thread and all that it starts from now on, but for the thread that
  // hears them. Handlers are the caller's. Processes that are started meanwhile inherit the mask.
  explicit SignalsApart(std::initializer_list<int> signals);
  ~SignalsApart();  // the calling thread hears them again
  SignalsApart(const SignalsApart&) = delete;
  SignalsApart& operator=(const SignalsApart&) = delete;

 private:
  sigset_t before_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread ears_;
};

// SIGTERM, SIGINT and SIGHUP (unless it is ignored) end this process as ever, but first what it has not
// finished is undone (undo_unfinished). For the rest of its life.
void undo_on_signals();

}  // namespace lockstep::launcher
