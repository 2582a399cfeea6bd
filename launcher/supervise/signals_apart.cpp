// Masks, and a thread that waits.
#include "launcher/supervise/signals_apart.h"

namespace lockstep::launcher {

SignalsApart::SignalsApart(std::initializer_list<int> signals) {
  sigset_t heard;
  sigemptyset(&heard);
  for (int signal : signals) sigaddset(&heard, signal);
  pthread_sigmask(SIG_BLOCK, &heard, &before_);
  ears_ = std::thread([this, heard] {
    pthread_sigmask(SIG_UNBLOCK, &heard, nullptr);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
  });
}

SignalsApart::~SignalsApart() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  ears_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace lockstep::launcher
