// CUDA C++ of what only Hopper has, by names: barriers of copies, tile copies (TMA), products of warpgroups
// (wgmma). Compiled for sm_90a.
#pragma once

#include <string>

namespace lockstep::compiler::cuda {

// Types u32, u64 and Map (a CUtensorMap), and the instructions.
std::string hopper_instructions();
// multiply(sums of 64 rows and `columns` columns, left, right, add): one product of depth 16 of bf16. Left
// lies in shared memory, or (`held`) in registers. TA, TB: the operand's rows are what is summed over.
std::string hopper_product(int columns, bool held);

}  // namespace lockstep::compiler::cuda
