// The CUDA sources of Reductions, as text.
#pragma once

#include <string>
#include <vector>

namespace lockstep::compiler::cuda {

// Kernels row_totals(TotalTable), limbs(LimbsTable, words), limbs_finish(words), norm_of_limbs(words, norm),
// copy(CopyTable), checksums(ChecksumTable, wanted), add_int64(totals, addend, count).
std::string common_source();
// Kernel accumulate_L(RunTable) for one L of 0 .. kMaxLefts.
std::string accumulate_source(int lefts);
// The text of both, for all L, as the certificate hashes it.
std::string reductions_source();
// Kernel sum(SumTable) for the tree that `merges` describes (Reductions::Sum). Order of a row's squares:
//   1. element i goes to accumulator i mod 4G in order of i. G is 32; for rows of up to 128 elements it is
//     the least power of two with 4G >= width;
//   2. accumulators are added as a tree, the two halves first;
//   3. pieces of 4096 elements are added as in row_totals.
// So the order depends on the width only. `halves`: which sources are bf16. It may be shorter than the
// sources; the rest are f32.
std::string sum_source(const std::vector<int>& merges, std::vector<bool> halves = {});

}  // namespace lockstep::compiler::cuda
