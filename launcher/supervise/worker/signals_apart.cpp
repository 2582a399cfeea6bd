// SignalsApart: sets signal masks and starts the thread that receives signals.
#include "launcher/supervise/worker/signals_apart.h"

#include "core/files/unfinished.h"

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

void undo_on_signals() {
  struct sigaction action{}, before{};
  action.sa_handler = [](int signal) {  // on the receiving thread
    undo_unfinished();
    ::signal(signal, SIG_DFL);
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal);
    pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
    ::raise(signal);
  };
  sigfillset(&action.sa_mask);
  const bool hangup = sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN;
  for (int signal : {SIGTERM, SIGINT, SIGHUP})
    if (signal != SIGHUP || hangup) sigaction(signal, &action, nullptr);
  static auto* apart = new SignalsApart({SIGTERM, SIGINT, SIGHUP});
  (void)apart;
}

}  // namespace lockstep::launcher
