// Arrays and the user's step function, the code.
#include "python/arrays.h"

#include <cstring>
#include <tuple>

#include "core/base/hash.h"

namespace lockstep::python {

DType dtype_of(const nb::dlpack::dtype& of) {
  auto is = [&](nb::dlpack::dtype_code code, int bits) {
    return of.code == static_cast<uint8_t>(code) && of.bits == bits && of.lanes == 1;
  };
  using Code = nb::dlpack::dtype_code;
  for (auto [dtype, code, bits] : {std::tuple{DType::f32, Code::Float, 32},
                                   {DType::f64, Code::Float, 64},
                                   {DType::f16, Code::Float, 16},
                                   {DType::bf16, Code::Bfloat, 16},
                                   {DType::i32, Code::Int, 32},
                                   {DType::i64, Code::Int, 64},
                                   {DType::u8, Code::UInt, 8},
                                   {DType::u16, Code::UInt, 16},
                                   {DType::u32, Code::UInt, 32},
                                   {DType::u64, Code::UInt, 64},
                                   {DType::boolean, Code::Bool, 8}})
    if (is(code, bits)) return dtype;
  throw UserError(str("[data] an array has a dtype of ", of.bits, " bits that no tensor has"));
}
Shape shape_of(const HostArray& array) {
  Shape out;
  for (size_t d = 0; d < array.ndim(); ++d) out.push_back(static_cast<int64_t>(array.shape(d)));
  return out;
}

namespace {
// The integers that a dtype holds.
std::pair<int64_t, int64_t> range_of(DType dtype) {
  if (dtype == DType::boolean) return {0, 1};
  if (dtype == DType::i64) return {INT64_MIN, INT64_MAX};
  if (dtype == DType::u64) return {0, INT64_MAX};
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  return dtype == DType::i32 ? std::pair<int64_t, int64_t>{INT32_MIN, INT32_MAX}
                             : std::pair<int64_t, int64_t>{0, (int64_t{1} << bits) - 1};
}
}  // namespace

std::string fingerprint_of(const HostArray& array) {
  constexpr size_t kWhole = size_t{1} << 30, kBlock = size_t{1} << 16, kBlocks = kWhole / kBlock;
  const size_t bytes = static_cast<size_t>(numel(shape_of(array))) * size_of(dtype_of(array.dtype()));
  const auto* data = static_cast<const std::byte*>(array.data());
  if (bytes <= kWhole) return hash_hex(data, bytes);
  std::string hashes;
  for (size_t b = 0; b < kBlocks; ++b)
    hashes += str(hash64(data + (bytes - kBlock) / (kBlocks - 1) * b, kBlock), ' ');
  return hash_hex(hashes);
}

int64_t first_beyond(const HostArray& array, DType from, DType to) {
  const auto [least, most] = range_of(to);
  for (int64_t i = 0, n = numel(shape_of(array)); i < n; ++i)
    if (const int64_t value = get_int(from, array.data(), i); value < least || value > most) return i;
  return -1;
}

void copy_elements(const std::string& name, const void* from, DType from_dtype, void* to, DType to_dtype,
                   int64_t count) {
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<size_t>(count) * size_of(to_dtype));
    return;
  }
  const auto [least, most] = range_of(is_float(to_dtype) ? DType::i64 : to_dtype);
  for (int64_t i = 0; i < count; ++i) {
    if (is_float(to_dtype)) {
      set_double(to_dtype, to, i, get_double(from_dtype, from, i));
      continue;
    }
    const int64_t value = get_int(from_dtype, from, i);
    if (value < least || value > most)
      throw UserError(str("[data] field \"", name, "\" has ", value, " (", lockstep::name(from_dtype),
                          "), and the step reads ", lockstep::name(to_dtype), ", ", least, " to ", most));
    set_int(to_dtype, to, i, value);
  }
}
// UserError unless the array is `shape` behind dim 0 (or whole), of a dtype that the field takes.
void check_array(const std::string& name, const HostArray& array, const Shape& want, DType want_dtype) {
  const DType got = dtype_of(array.dtype());
  const Shape shape = shape_of(array);
  if (shape != want || is_float(got) != is_float(want_dtype))
    throw UserError(str("[data] field \"", name, "\" is ", shape_text(got, shape), "; the step reads ",
                        shape_text(want_dtype, want)));
}

HostArray host_array(nb::handle value) {
  HostArray array;
  if (nb::try_cast(value, array, false)) return array;
  static nb::object* contiguous = new nb::object(nb::module_::import_("numpy").attr("ascontiguousarray"));
  nb::object made = (*contiguous)(value);
  // A scalar of Python becomes an array of one element and one dim.
  if (nb::isinstance<nb::float_>(value) || nb::isinstance<nb::int_>(value))
    made = made.attr("reshape")(nb::tuple());
  return nb::cast<HostArray>(made);
}

const char* numpy_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::f16:
      return "float16";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
    case DType::u8:
      return "uint8";
    case DType::u16:
    case DType::bf16:
      return "uint16";
    case DType::u32:
      return "uint32";
    case DType::u64:
      return "uint64";
    case DType::boolean:
      return "bool";
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return "uint8";
  }
  return "?";
}

FieldTypes field_types(nb::dict fields) {
  FieldTypes out;
  for (auto [name, value] : fields) {
    nb::tuple type = nb::cast<nb::tuple>(value);
    out.push_back({nb::cast<std::string>(name), nb::cast<DType>(type[0]), nb::cast<Ints>(type[1]).values});
  }
  return out;
}

compiler::StepFunction step_function(nb::callable function, const FieldTypes& types, const char* called) {
  return [function, fields = names_of(types), called](const std::vector<Tensor>& batch) {
    nb::gil_scoped_acquire python;
    nb::object loss = call_with_fields(function, fields, batch, called);
    if (!nb::isinstance<Loss>(loss))
      throw UserError(
          str(called, " gave ", nb::cast<std::string>(nb::repr(loss)), "; it must return the Loss"));
    return nb::cast<Loss>(loss);
  };
}

}  // namespace lockstep::python
