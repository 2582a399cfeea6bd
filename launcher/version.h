// The version of Lockstep: `trainrun --version` prints it, and CMakeLists.txt has the same.
#pragma once

namespace lockstep::launcher {
inline constexpr const char* kVersion = LOCKSTEP_VERSION;
}
