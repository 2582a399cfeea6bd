// Maps our datatypes, operators and errors to MPI's.
#pragma once

#include <mpi.h>

#include <string>

#include "core/mesh/group.h"

namespace lockstep::distributed {

MPI_Datatype mpi_type(DType dtype);  // bf16 and f16 are sent as 16-bit integers, bool as a byte
// For bf16 and f16 the operators are our own: each addition is in f32 and rounded to the type.
MPI_Op mpi_op(DType dtype, ReduceOp op);
void make_mpi_ops();                   // call once, after MPI_Init
std::string mpi_error_text(int code);  // MPI's own words

}  // namespace lockstep::distributed
