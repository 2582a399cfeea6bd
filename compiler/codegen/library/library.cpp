// Which ops are library calls, and the entry into oneDNN.
#include "compiler/codegen/library/library.h"

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "core/base/error.h"
#include "core/table/register.h"

namespace lockstep::compiler {

Operand dense_operand(DType dtype, const Shape& shape) { return {dtype, shape, row_major_strides(shape)}; }
bool is_dense(const Operand& operand) {
  auto dense = row_major_strides(operand.shape);
  for (size_t i = 0; i < dense.size(); ++i)
    if (operand.shape[i] > 1 && operand.strides[i] != dense[i]) return false;
  return true;
}

bool is_library_op(OpId op) {
  const Op& row = op_row(op);
  return row.library != Library::none || (row.own && row.own->definition.host);
}
bool accepts_strides(const Node& node, size_t index) {
  // Arguments with heads: q, k, v, o and their gradients; not lse, masks or a bias.
  const size_t inputs = node.inputs.size(), made = index - inputs;
  if (node.op == ops::sdpa) return index < 3 || (index >= inputs && made < 1);
  if (node.op == ops::sdpa_grad) return index < 5 || (index >= inputs && made < 3);
  return false;
}

std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in,
                                               const std::vector<Operand>& out) {
  if (op_row(node.op).own) return make_own_call(node, in, out);
  switch (op_row(node.op).library) {
    case Library::contraction:
      return make_contraction(node, in, out);
    case Library::convolution:
      return make_convolution(node, in, out);
    case Library::attention:
      return make_attention(node, in, out);
    case Library::row_sums:
      return make_row_sums(node, in, out);
    case Library::pooling:
      return make_pooling(node, in, out);
    case Library::float8:
      return make_float8(node, in, out);
    case Library::none:
      break;
  }
  throw InternalError(str(node.op, " is no library op"));
}

std::string library_version() {
  const dnnl_version_t* version = dnnl::version();
  const char* isa = "other";
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx2:
      isa = "avx2";
      break;
    case dnnl::cpu_isa::avx512_core:
      isa = "avx512_core";
      break;
    case dnnl::cpu_isa::avx512_core_vnni:
      isa = "avx512_core_vnni";
      break;
    case dnnl::cpu_isa::avx512_core_bf16:
      isa = "avx512_core_bf16";
      break;
    case dnnl::cpu_isa::avx512_core_amx:
      isa = "avx512_core_amx";
      break;
    default:
      break;
  }
  return str("oneDNN ", version->major, ".", version->minor, ".", version->patch, " (", isa, ")");
}

void sgemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
           int64_t ldb, float beta, float* c, int64_t ldc) {
  // The thread count is a property of the calling thread: one thread per block, whatever the size of the
  // caller's team.
  omp_set_num_threads(1);
  auto status = dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
  LS_CHECK(status == dnnl_success, "dnnl_sgemm(", m, ",", n, ",", k, ") gave status ",
           static_cast<int>(status));
}

}  // namespace lockstep::compiler
