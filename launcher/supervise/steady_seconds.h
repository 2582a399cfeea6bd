// Seconds of a clock that only goes forward.
#pragma once

#include <chrono>

namespace lockstep::launcher {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace lockstep::launcher
