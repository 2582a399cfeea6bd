// CUDA C++ wrappers for instructions that only Hopper has: copy barriers, tile copies (TMA), products of
// warpgroups (wgmma). Compiled for sm_90a.
#pragma once

#include <string>

namespace lockstep::compiler::cuda {

// Types u32, u64 and Map (a CUtensorMap), and the instructions.
std::string hopper_instructions();
// multiply(sums of 64 rows and `columns` columns, left, right, add): one bf16 product of depth 16. The left
// operand is in shared memory, or in registers if `held`. TA, TB: the operand's rows run along the summed
// dim.
std::string hopper_product(int columns, bool held);

}  // namespace lockstep::compiler::cuda
