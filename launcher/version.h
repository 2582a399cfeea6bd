// The version of Lockstep, as `trainrun --version` prints it and CMakeLists.txt states it.
#pragma once

namespace lockstep::launcher {
inline constexpr const char* kVersion = LOCKSTEP_VERSION;
}
