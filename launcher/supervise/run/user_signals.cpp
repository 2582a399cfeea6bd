// Installs signal handlers that count the user's signals.
#include "launcher/supervise/run/user_signals.h"

#include <atomic>
#include <csignal>

#include "launcher/supervise/worker/one_signal.h"

namespace lockstep::launcher {

namespace {
std::atomic<int> g_seen{0}, g_first_user_signal{0};
void on_user_signal(int signal, siginfo_t* info, void*) {
  if (same_as_first(signal, info)) return;
  int none = 0;
  g_first_user_signal.compare_exchange_strong(none, signal);
  ++g_seen;
}
}  // namespace

void install_signals(bool restart_calls) {
  struct sigaction action{};
  action.sa_sigaction = on_user_signal;
  action.sa_flags = SA_SIGINFO | (restart_calls ? SA_RESTART : 0);
  struct sigaction before{};
  const bool deaf_to_hangup = sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1})  // batch systems send SIGUSR1 as a warning
    if (signal != SIGHUP || !deaf_to_hangup) sigaction(signal, &action, nullptr);
  sigset_t heard;  // the parent process may have blocked them
  sigemptyset(&heard);
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&heard, signal);
  pthread_sigmask(SIG_UNBLOCK, &heard, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  if (restart_calls) return;
  action.sa_handler = [](int) {};  // so that the end of a rank interrupts a poll
  action.sa_flags = SA_NOCLDSTOP;
  sigaction(SIGCHLD, &action, nullptr);
}
int signals_seen() { return g_seen.load(); }
int first_signal() { return g_first_user_signal.load(); }

}  // namespace lockstep::launcher
