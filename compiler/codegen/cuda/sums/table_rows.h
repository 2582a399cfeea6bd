// Sums of a sparse table's gradient rows by id, and rows put into the table: kernels and their launches.
#pragma once

#include <functional>
#include <string>

#include "compiler/codegen/cuda/sums/reductions_tables.h"
#include "compiler/codegen/target.h"

namespace lockstep::compiler::cuda {

// Enqueues a kernel of table_rows_source(). `args` are pointers to the values of its parameters, which are
// read before it returns.
using RowLaunch = std::function<void(const char* kernel, unsigned blocks, unsigned threads, void** args)>;

// Reductions::sum_rows with the CPU's bits, also of the squares. `scratch`: table_row_scratch() bytes of
// device memory, aligned to 256. If an id is outside the table, the first one is written to *stray. Then
// every output id is -1, every row is 0 and every square is NaN, so that no gate lets the step pass.
void sum_table_rows(const Reductions::Rows& rows, void* scratch, StrayId* stray, const RowLaunch& launch);
size_t table_row_scratch(int64_t count);
// Reductions::put_rows. Ids outside the table are skipped.
void put_table_rows(const Reductions::Placed& placed, const RowLaunch& launch);

// The most ids that one block sorts in one launch.
inline constexpr int64_t kOneBlockIds = 4096;
// CUDA C++ of the kernels.
std::string table_rows_source();

}  // namespace lockstep::compiler::cuda
