// OneSignal: remembers the first signal and compares later ones with it.
#include "launcher/supervise/worker/one_signal.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace lockstep::launcher {

namespace {
constexpr int64_t kTogether = 500'000'000;  // ns; a sender may be delayed between its two calls
std::atomic<int> g_first{0};
std::atomic<int64_t> g_heard{0};

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
}  // namespace

bool same_as_first(int signal, const siginfo_t* info) {
  int none = 0;
  if (g_first.compare_exchange_strong(none, signal)) {
    g_heard = now_ns();
    return false;
  }
  const bool of_group = info && info->si_code == SI_USER && info->si_pid > 0 && info->si_pid == getppid() &&
                        info->si_pid == getpgrp();
  return of_group && none == signal && now_ns() - g_heard.load() < kTogether;
}

}  // namespace lockstep::launcher
