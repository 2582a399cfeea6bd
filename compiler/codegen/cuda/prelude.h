// The prelude of CUDA kernels: types, memory access and the ls_* functions of the op table, as text that
// every translation unit begins with.
#pragma once

#include <string>

namespace lockstep::compiler::cuda {

// One thread computes one element at a time: functions take and give scalars. bf16 and f16 are floats in
// registers, rounded after each op.
std::string kernel_prelude();

}  // namespace lockstep::compiler::cuda
