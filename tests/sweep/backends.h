// The backends that law five compares with the reference evaluator, on this machine.
#pragma once

#include <vector>

#include "compiler/laws/backends.h"

namespace lockstep::sweep {

using Backend = compiler::laws::CompiledBackend;
using compiler::laws::compiled_backend;
using compiler::laws::not_taken;

// Every backend but the reference: native, and eager (op by op), of the CPU and of a GPU where there is one.
std::vector<Backend> backends();

}  // namespace lockstep::sweep
