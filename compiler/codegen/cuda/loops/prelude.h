// The prelude of CUDA kernels: types, memory access and the ls_* functions of the op table, as text at the
// start of every translation unit.
#pragma once

#include <string>

namespace lockstep::compiler::cuda {

// One thread computes one element at a time: parameters and results are scalars. bf16 and f16 are floats in
// registers, rounded after each op.
std::string kernel_prelude();

}  // namespace lockstep::compiler::cuda
