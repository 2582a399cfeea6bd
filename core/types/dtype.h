// Element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/types/float8.h"
#include "core/types/half.h"

namespace lockstep {

// f8_e4m3 and f8_e5m2 are storage formats of matrix product operands (core/functions/float8.h). They have
// no arithmetic, so they are not among the floats.
enum class DType : uint8_t { f32, f64, bf16, f16, i32, i64, u8, u16, u32, u64, boolean, f8_e4m3, f8_e5m2 };

size_t size_of(DType dtype);               // bytes per element; boolean is 1
std::string_view name(DType dtype);        // "f32", "bf16", "bool", ...
DType parse_dtype(std::string_view name);  // throws UserError for an unknown name
bool is_float(DType dtype);                // f32, f64, bf16, f16
bool is_integer(DType dtype);              // i32 ... u64
constexpr bool is_float8(DType dtype) { return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2; }
std::string_view safetensors_name(DType dtype);  // "F32", "BF16", "BOOL", ...
DType parse_safetensors_dtype(std::string_view name);

// Element i of a buffer as double / as int64, and back (rounded to nearest even). For tests, the reference
// and small tools.
double get_double(DType dtype, const void* data, int64_t i);
void set_double(DType dtype, void* data, int64_t i, double value);
int64_t get_int(DType dtype, const void* data, int64_t i);
void set_int(DType dtype, void* data, int64_t i, int64_t value);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<f8_e4m3> {
  static constexpr DType value = DType::f8_e4m3;
};
template <>
struct DTypeOf<f8_e5m2> {
  static constexpr DType value = DType::f8_e5m2;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace lockstep
