// The loop nest of a planned body.
#pragma once

#include <string>

#include "compiler/codegen/loops/plan.h"

namespace lockstep::compiler::cpu {

// Order of sums, a function of the reduced length only:
//   - row reductions: blocks of kBlock columns; in a block sixteen lanes stride the columns in order and meet
//     in a fixed tree; the blocks' results are reduced in the same way;
//   - column reductions: blocks of column_block(rows) rows, each summed in order; the blocks' results are
//     added in order.
inline constexpr int64_t kBlock = 8192;
int64_t column_block(int64_t rows);

// `extern "C" void NAME(void* const* args, int threads) { ... }`
std::string kernel_text(const Graph& body, const codegen::Plan& plan, const std::string& name);

}  // namespace lockstep::compiler::cpu
