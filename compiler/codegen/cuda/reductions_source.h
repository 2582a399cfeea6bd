// The CUDA sources of Reductions, as text.
#pragma once

#include <string>
#include <vector>

namespace lockstep::compiler::cuda {

// Kernels row_totals(TotalTable), limbs(LimbsTable, words), limbs_finish(words), norm_of_limbs(words, norm),
// copy(CopyTable), checksums(ChecksumTable, wanted), add_int64(totals, addend, count).
std::string common_source();
// Kernel accumulate_L(RunTable), of one L of 0 .. kMaxLefts.
std::string accumulate_source(int lefts);
// The text of both, for all L: what the certificate has of them.
std::string reductions_source();
// Kernel sum(SumTable) for the tree that `merges` describes (Reductions::Sum). Order of a row's squares:
// element i goes to accumulator i mod 4G in order of i, where G is 32, and for rows of up to 128 elements the
// least power of two with 4G >= width; accumulators are added as a tree, the two halves first; pieces of 4096
// elements as row_totals adds them. So it depends on the width alone. `halves`: which sources are bf16;
// shorter than the sources: the rest is f32.
std::string sum_source(const std::vector<int>& merges, std::vector<bool> halves = {});

}  // namespace lockstep::compiler::cuda
