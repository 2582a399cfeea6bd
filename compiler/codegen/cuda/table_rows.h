// Sums of a sparse table's gradient rows by id, and rows put into the table: kernels and their launches.
#pragma once

#include <functional>
#include <string>

#include "compiler/codegen/cuda/reductions_tables.h"
#include "compiler/codegen/target.h"

namespace lockstep::compiler::cuda {

// Enqueues a kernel of table_rows_source(); `args` are pointers to the values of its parameters, read before
// it returns.
using RowLaunch = std::function<void(const char* kernel, unsigned blocks, unsigned threads, void** args)>;

// Reductions::sum_rows with the CPU's bits, those of the squares too. `scratch`: table_row_scratch() bytes at
// a multiple of 256, of the device. An id outside of the table is written to *stray where nothing is written
// yet; then every id that is given out is -1, every row 0 and every square no number, so that no gate lets
// the step pass.
void sum_table_rows(const Reductions::Rows& rows, void* scratch, StrayId* stray, const RowLaunch& launch);
size_t table_row_scratch(int64_t count);
// Reductions::put_rows. Ids outside of the table are left out.
void put_table_rows(const Reductions::Placed& placed, const RowLaunch& launch);

// Ids that one block sorts alone, in one launch.
inline constexpr int64_t kOneBlockIds = 4096;
// CUDA C++ of the kernels.
std::string table_rows_source();

}  // namespace lockstep::compiler::cuda
