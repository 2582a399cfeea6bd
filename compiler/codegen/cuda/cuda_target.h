// An NVIDIA GPU as a target. Compiles without CUDA's headers, so its users need no preprocessor condition.
#pragma once

#include <string>

#include "compiler/codegen/target.h"

namespace lockstep::compiler {

// Whether this program was built with CUDA and a driver with a device exists; else `why` says what is
// missing. Never throws.
bool cuda_available(std::string* why = nullptr);
int cuda_devices();  // 0 where not available
// The target of a device, once per process and ordinal. UserError: built without CUDA; no driver; no such
// device; a device that is too old.
const Target& cuda_target(int ordinal);

}  // namespace lockstep::compiler
