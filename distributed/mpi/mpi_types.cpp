// MPI datatypes and reduction operators, with our own for bf16 and f16.
#include "distributed/mpi/mpi_types.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep::distributed {

namespace {
template <class Half, ReduceOp op>
void reduce_half(void* in, void* inout, int* count, MPI_Datatype*) {
  const Half* a = static_cast<const Half*>(in);
  Half* b = static_cast<Half*>(inout);
  for (int i = 0; i < *count; ++i) {
    float x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    b[i] = Half(op == ReduceOp::sum ? x + y : op == ReduceOp::max ? std::max(x, y) : std::min(x, y));
  }
}
MPI_Op half_ops[2][3];  // [bf16, f16][sum, max, min]
}  // namespace

void make_mpi_ops() {
  const int commutes = 1;
  MPI_Op_create(reduce_half<bf16, ReduceOp::sum>, commutes, &half_ops[0][0]);
  MPI_Op_create(reduce_half<bf16, ReduceOp::max>, commutes, &half_ops[0][1]);
  MPI_Op_create(reduce_half<bf16, ReduceOp::min>, commutes, &half_ops[0][2]);
  MPI_Op_create(reduce_half<f16, ReduceOp::sum>, commutes, &half_ops[1][0]);
  MPI_Op_create(reduce_half<f16, ReduceOp::max>, commutes, &half_ops[1][1]);
  MPI_Op_create(reduce_half<f16, ReduceOp::min>, commutes, &half_ops[1][2]);
}

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::bf16:
    case DType::f16:
    case DType::u16:
      return MPI_UINT16_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::u8:
    case DType::boolean:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return MPI_UINT8_T;
    case DType::u32:
      return MPI_UINT32_T;
    case DType::u64:
      return MPI_UINT64_T;
  }
  throw InternalError(str("no MPI type for dtype ", static_cast<int>(dtype)));
}

MPI_Op mpi_op(DType dtype, ReduceOp op) {
  if (dtype == DType::bf16 || dtype == DType::f16) return half_ops[dtype == DType::f16][static_cast<int>(op)];
  // The sum of booleans is "any"
  if (dtype == DType::boolean) return op == ReduceOp::min ? MPI_MIN : MPI_MAX;
  return op == ReduceOp::sum ? MPI_SUM : op == ReduceOp::max ? MPI_MAX : MPI_MIN;
}

std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<size_t>(length)};
}

}  // namespace lockstep::distributed
