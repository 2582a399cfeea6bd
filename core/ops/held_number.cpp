// Converts numbers to attributes, and explains why a dtype cannot represent one.
#include "core/ops/held_number.h"

#include <cmath>

#include "core/base/error.h"

namespace lockstep {

namespace {
// The smallest positive number of a float dtype.
std::string least_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "1.4012985e-45";
    case DType::f16:
      return "5.9604645e-08";
    case DType::bf16:
      return "9.1835496e-41";
    case DType::f8_e4m3:
      return "0.001953125";
    case DType::f8_e5m2:
      return "1.5258789e-05";
    default:
      return "4.9406565e-324";
  }
}
std::string range_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool holds 0 and 1";
    case DType::i32:
      return "i32 holds -2147483648 to 2147483647";
    case DType::i64:
      return "i64 holds -9223372036854775808 to 9223372036854775807";
    case DType::f32:
      return "it is beyond f32, whose largest number is 3.4028235e+38";
    case DType::f16:
      return "it is beyond f16, whose largest number is 65504";
    case DType::bf16:
      return "it is beyond bf16, whose largest number is 3.3895314e+38";
    case DType::f64:
      return "it is beyond f64, whose largest number is 1.7976931348623157e+308";
    default:
      return str(name(dtype), " holds 0 to ", ~uint64_t{0} >> (64 - 8 * size_of(dtype)));
  }
}
}  // namespace

Attr attr_of(const Number& number, DType dtype) {
  if (is_float(dtype) || is_float8(dtype)) return number.real(dtype);
  return number.bits();
}

Number number_of(const Attrs& attrs, std::string_view name, DType dtype) {
  for (const auto& [key, value] : attrs.items())
    if (key == name)
      if (const auto* whole = std::get_if<int64_t>(&value))
        return dtype == DType::u64 ? Number(static_cast<uint64_t>(*whole)) : Number(*whole);
  return attrs.number(name);
}

std::string not_held(const Number& number, DType dtype, const std::string& tensor) {
  const double value = number.real();
  const bool fraction =
      !is_float(dtype) && !is_float8(dtype) && !number.is_integer() && !(value == std::trunc(value));
  const bool whole_alone = fraction || (!is_float(dtype) && !is_float8(dtype) && std::isinf(value));
  const bool floats = is_float(dtype) || is_float8(dtype);
  const std::string why =
      whole_alone && dtype != DType::boolean ? str(name(dtype), " holds only whole numbers")
      : floats && std::fabs(value) < 1
          ? str("it becomes 0 in ", name(dtype), ", whose least number beyond 0 is ", least_of(dtype))
          : range_of(dtype);
  const DType wider = dtype_for(number, dtype);
  const bool wider_fits = number.fits(wider) && wider != dtype;
  if (tensor.empty())
    return str(number.text(), " as ", name(dtype), ": ", why,
               wider_fits ? str("; take a dtype that does, as ", name(wider)) : "");
  return str(number.text(), " with ", tensor, ": ", why,
             wider_fits ? str("; convert the tensor: x.to(", name(wider),
                              ") in Python, convert(x, DType::", name(wider), ") in C++")
                        : "");
}

}  // namespace lockstep
