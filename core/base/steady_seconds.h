// Returns the seconds of a monotonic clock.
#pragma once

#include <chrono>

namespace lockstep {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace lockstep
