// Tolerances by dtype, for tests.
#pragma once

#include "compiler/laws/tolerance.h"

namespace lockstep::testing {

using compiler::laws::difference;
using compiler::laws::difference_tolerance;
using compiler::laws::near;
using compiler::laws::Tolerance;
using compiler::laws::tolerance;

}  // namespace lockstep::testing
