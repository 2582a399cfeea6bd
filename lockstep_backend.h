// The one header that a backend from outside the tree includes; docs/backend.md tells how to write one.
#pragma once

#include "compiler/codegen/plugin.h"
#include "core/base/error.h"
#include "core/device/device.h"

// What a backend names of the compiler.
namespace lockstep {

using compiler::cpu_target;
using compiler::HostCall;
using compiler::Kernel;
using compiler::KernelSet;
using compiler::KernelSource;
using compiler::LibraryCall;
using compiler::MultiTensorKernel;
using compiler::Operand;
using compiler::Plugin;
using compiler::Reductions;
using compiler::Target;
using compiler::TargetOptions;

}  // namespace lockstep
