// Converts Python arrays to tensors' elements and back, with checks.
#include "python/arrays.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "core/base/hash.h"

namespace lockstep::python {

namespace {
std::optional<DType> known_dtype(const nb::dlpack::dtype& of) {
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
  return std::nullopt;
}
}  // namespace

DType dtype_of(const nb::dlpack::dtype& of) { return known_dtype(of).value(); }  // host_array has checked it
Shape shape_of(const HostArray& array) {
  Shape out;
  for (size_t d = 0; d < array.ndim(); ++d) out.push_back(static_cast<int64_t>(array.shape(d)));
  return out;
}

namespace {
// The smallest and largest integer of a dtype.
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
  return str(hash_hex(hashes), " (of 64 KiB at ", kBlocks, " places, since it is larger than 1 GiB)");
}

namespace {
std::string integer_text(DType dtype, const void* data, int64_t i) {
  const int64_t value = get_int(dtype, data, i);
  return dtype == DType::u64 ? str(static_cast<uint64_t>(value)) : str(value);
}

// A u64 of 2^63 or more is read as a negative number; no other integer dtype can represent it.
int64_t first_integer_beyond(const void* data, int64_t count, DType from, DType to) {
  const auto [least, most] = range_of(to);
  const int64_t lowest = from == DType::u64 ? std::max<int64_t>(0, least) : least;
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t value = get_int(from, data, i); value < lowest || value > most) return i;
  return -1;
}
}  // namespace

int64_t first_beyond(const HostArray& array) {
  const auto first = [&](const auto* values, auto outside) -> int64_t {
    const auto* end = values + numel(shape_of(array));
    const auto* found = std::find_if(values, end, outside);
    return found == end ? -1 : found - values;
  };
  if (dtype_of(array.dtype()) == DType::i64)
    return first(static_cast<const int64_t*>(array.data()),
                 [](int64_t value) { return value < INT32_MIN || value > INT32_MAX; });
  constexpr double kRoundsToInfinity = 0x1.ffffffp127;  // NaN and infinity can be represented
  return first(static_cast<const double*>(array.data()),
               [](double value) { return std::abs(value) >= kRoundsToInfinity && std::isfinite(value); });
}

void copy_elements(const std::string& name, const void* from, DType from_dtype, void* to, DType to_dtype,
                   int64_t count, Rows rows) {
  if (count == 0) return;  // an array without elements may have no address
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<size_t>(count) * size_of(to_dtype));
    return;
  }
  if (is_float(to_dtype)) {
    for (int64_t i = 0; i < count; ++i) {
      const double value = get_double(from_dtype, from, i);
      set_double(to_dtype, to, i, value);
      if (std::isfinite(value) && !std::isfinite(get_double(to_dtype, to, i)))
        throw UserError(str("[data] field \"", name, "\" has ", number_text(value), " (",
                            lockstep::name(from_dtype), "), which ", lockstep::name(to_dtype),
                            " does not hold; scale the values, or clip them"));
    }
    return;
  }
  if (const int64_t beyond = first_integer_beyond(from, count, from_dtype, to_dtype); beyond >= 0) {
    const auto [least, most] = range_of(to_dtype);
    throw UserError(str("[data] field \"", name, "\" has ", integer_text(from_dtype, from, beyond), " (",
                        lockstep::name(from_dtype), ")",
                        rows.size > 0 ? str(" in row ", rows.first + beyond / rows.size) : std::string(),
                        ", and the step reads ", lockstep::name(to_dtype), ", ", least, " to ", most));
  }
  for (int64_t i = 0; i < count; ++i) set_int(to_dtype, to, i, get_int(from_dtype, from, i));
}
void check_elements(const std::string& name, const HostArray& array, DType dtype) {
  const DType held = dtype_of(array.dtype());
  const bool known =
      (held == DType::f64 && dtype == DType::f32) || (held == DType::i64 && dtype == DType::i32);
  if (held == dtype || (known && first_beyond(array) < 0)) return;
  constexpr int64_t kBlock = 4096;
  std::vector<std::byte> copy(static_cast<size_t>(kBlock) * size_of(dtype));
  for (int64_t i = 0, n = numel(shape_of(array)); i < n; i += kBlock)
    copy_elements(name, static_cast<const std::byte*>(array.data()) + static_cast<size_t>(i) * size_of(held),
                  held, copy.data(), dtype, std::min(kBlock, n - i));
}
// Throws UserError unless the array has the wanted shape and a dtype that the field takes.
void check_array(const std::string& name, const HostArray& array, const Shape& want, DType want_dtype) {
  const DType got = dtype_of(array.dtype());
  const Shape shape = shape_of(array);
  if (shape != want || is_float(got) != is_float(want_dtype))
    throw UserError(str("[data] field \"", name, "\" is ", shape_text(got, shape), "; the step reads ",
                        shape_text(want_dtype, want),
                        shape != want          ? ""
                        : is_float(want_dtype) ? ": give floats, as array.astype(\"float32\")"
                                               : ": give integers, as array.astype(\"int32\")"));
}

HostArray host_array(const std::string& field, nb::handle value) {
  HostArray array;
  // A PyTorch tensor may have a lazy negation (is_neg), which DLPack does not carry.
  if (!nb::hasattr(value, "is_neg") && nb::try_cast(value, array, false) && known_dtype(array.dtype()))
    return array;
  nb::object plain = asked("fields", "plain", field, value);
  if (!nb::try_cast(plain, array, false) || !known_dtype(array.dtype()))
    throw UserError(str("[data] field \"", field, "\" is ", shown(value),
                        ", which cannot be converted to an array of numbers"));
  return array;
}

std::vector<HostArray> arrays_of(const char* where, const FieldTypes& fields, nb::args in_order,
                                 nb::kwargs by_name) {
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[", where, "] ", python_line().text(), ": ", what, "; it reads ", words_of(fields)));
  };
  std::vector<HostArray> out;
  for (size_t f = 0; f < fields.size(); ++f) {
    const std::string& name = fields[f].name;
    const bool named = by_name.contains(name.c_str());
    if (f < nb::len(in_order) && named)
      refuse(str("field \"", name, "\" is given twice, in order and by its name"));
    if (f >= nb::len(in_order) && !named) refuse(str("field \"", name, "\" is missing"));
    out.push_back(host_array(name, named ? nb::object(by_name[name.c_str()]) : nb::object(in_order[f])));
  }
  if (nb::len(in_order) > fields.size())
    refuse(str(nb::len(in_order), " arrays are given in order, and there are ", fields.size(), " fields"));
  for (auto [key, value] : by_name) {
    const std::string name = nb::cast<std::string>(key);
    if (std::none_of(fields.begin(), fields.end(), [&](const auto& field) { return field.name == name; }))
      refuse(str("there is no field \"", name, "\""));
  }
  return out;
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
    auto refuse = [&, name = name, value = value] {
      throw UserError(str("[data] ", python_line().text(), ": field ", shown(name), " is ", shown(value),
                          "; a field is a name with its dtype and shape, as in {\"x\": (ls.f32, [20])}"));
    };
    if (!nb::isinstance<nb::str>(name) || !PySequence_Check(value.ptr()) || nb::isinstance<nb::str>(value) ||
        PySequence_Size(value.ptr()) != 2)
      refuse();
    DType dtype{};
    Ints shape;
    if (!nb::try_cast(nb::object(value[0]), dtype, false) || !nb::try_cast(nb::object(value[1]), shape))
      refuse();
    for (const int64_t size : shape.values)
      if (size < 0)
        throw UserError(str("[data] ", python_line().text(), ": field ", shown(name), " has the size ", size,
                            " in ", shown(value[1]),
                            "; give the sizes of the first call: it is compiled for others when they come"));
    out.push_back({nb::cast<std::string>(name), dtype, shape.values});
  }
  return out;
}
nb::dict dict_of(const FieldTypes& fields) {
  nb::dict out;
  for (const auto& field : fields)
    out[field.name.c_str()] = nb::make_tuple(field.dtype, nb::tuple(nb::cast(field.shape)));
  return out;
}
std::string words_of(const FieldTypes& fields) {
  std::vector<std::string> out;
  for (const auto& field : fields) out.push_back(str(field.name, " ", shape_text(field.dtype, field.shape)));
  return join(out, ", ");
}

std::shared_ptr<nb::callable> held(nb::callable function) {
  return {new nb::callable(std::move(function)), [](nb::callable* callable) {
            nb::gil_scoped_acquire python;
            delete callable;
          }};
}

compiler::StepFunction step_function(nb::callable function, const FieldTypes& types, const char* called) {
  return [function = held(std::move(function)), fields = names_of(types),
          called](const std::vector<Tensor>& batch) {
    nb::gil_scoped_acquire python;
    TracedStep traced(batch);
    nb::object loss = call_with_fields(*function, fields, batch, called);
    if (!nb::isinstance<Loss>(loss))
      throw UserError(str(called, " gave ", shown(loss), "; it must return the Loss"));
    return nb::cast<Loss>(loss);
  };
}

namespace {
thread_local std::vector<Tensor> traced_now;
}
TracedStep::TracedStep(const std::vector<Tensor>& beside) : any_(!beside.empty()) {
  if (any_) traced_now.push_back(beside.front());
}
TracedStep::~TracedStep() {
  if (any_) traced_now.pop_back();
}
const Tensor* TracedStep::innermost() { return traced_now.empty() ? nullptr : &traced_now.back(); }

}  // namespace lockstep::python
