// MPI's words for ours: datatypes, operators, errors.
#pragma once

#include <mpi.h>

#include <string>

#include "core/mesh/group.h"

namespace lockstep::distributed {

MPI_Datatype mpi_type(DType dtype);  // bf16 and f16 travel as 16-bit words, bool as a byte
MPI_Op mpi_op(DType dtype,
              ReduceOp op);  // bf16 and f16: operators of our own, each addition in f32, rounded to the type
void make_mpi_ops();         // once, after MPI_Init
std::string mpi_error_text(int code);  // MPI's own words

}  // namespace lockstep::distributed
