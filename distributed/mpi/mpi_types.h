// MPI's words for ours: datatypes, operators, errors.
#pragma once

#include <mpi.h>

#include <string>

#include "core/mesh/group.h"

namespace lockstep::distributed {

MPI_Datatype mpi_type(DType dtype);  // bf16 and f16 travel as 16-bit words, bool as a byte
// For bf16 and f16 the operators are our own: each addition is in f32 and rounded to the type.
MPI_Op mpi_op(DType dtype, ReduceOp op);
void make_mpi_ops();                   // once, after MPI_Init
std::string mpi_error_text(int code);  // MPI's own words

}  // namespace lockstep::distributed
