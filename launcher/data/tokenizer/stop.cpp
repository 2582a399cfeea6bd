// Holds the stop callback for all threads.
#include "launcher/data/tokenizer/stop.h"

#include <atomic>

namespace lockstep::launcher::data {

namespace {
std::atomic<bool (*)()> g_asked{nullptr};
}

void stop_reading_when(bool (*asked)()) { g_asked.store(asked); }

void check_stop() {
  if (bool (*asked)() = g_asked.load(std::memory_order_relaxed); asked && asked()) throw Stopped();
}

}  // namespace lockstep::launcher::data
