// How many times longer a bound in seconds is under a sanitizer (tests/CMakeLists.txt).
#pragma once

namespace lockstep {

#ifndef LOCKSTEP_SLOWNESS
#define LOCKSTEP_SLOWNESS 1
#endif
inline constexpr double kSlowness = LOCKSTEP_SLOWNESS;

}  // namespace lockstep
