// Numbers, types and functors of CUDA C++.
#include "compiler/codegen/cuda/loops/dialect.h"

#include <cmath>

namespace lockstep::compiler::cuda {

std::string_view CudaDialect::type(DType dtype) const {
  switch (dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return "float";
    case DType::f64:
      return "double";
    default:
      return name(dtype);
  }
}

codegen::IndexWords CudaDialect::index_words(const std::string& column) const {
  return {column, number_, "unsigned " + number_, str("ls_guard<", number_, ">"),
          [this](int id, bool) { return str("(", number_, ")t", id); }};
}

std::string CudaDialect::infinity(bool wide) const {
  return wide ? "__longlong_as_double(0x7ff0000000000000ll)" : "__int_as_float(0x7f800000)";
}
std::string CudaDialect::not_a_number(bool wide) const {
  return wide ? "__longlong_as_double(0x7ff8000000000000ll)" : "__int_as_float(0x7fc00000)";
}

std::string CudaDialect::literal(DType dtype, const Number& value) const {
  const std::string element = Dialect::literal(dtype, value);
  return is_integer(dtype) ? str("(", type(dtype), ")", element) : element;
}

// Only if neither the constant nor its reciprocal is near the limits of f32.
std::string CudaDialect::divided(DType dtype, const std::string& operand, double by) const {
  const double size = std::fabs(by);
  if (type(dtype) != "float" || size < 0x1p-60 || size > 0x1p60) return "";
  const auto divisor = static_cast<float>(by);
  return str("ls_div_by(", operand, ", ", literal(DType::f32, divisor), ", ",
             literal(DType::f32, 1.0 / static_cast<double>(divisor)), ")");
}

std::string CudaDialect::functor(codegen::FoldOp fold) {
  static constexpr const char* kNames[] = {"sum", "prod", "max", "min", "any", "all"};
  return str("ls_", kNames[static_cast<int>(fold)], "()");
}

}  // namespace lockstep::compiler::cuda
