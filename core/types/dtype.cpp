// Element types: names, sizes, element access, conversions of f16 and float8.
#include "core/types/dtype.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "core/base/error.h"

namespace lockstep {

namespace {
struct Row {
  DType dtype;
  const char* name;
  const char* safetensors;
  size_t size;
};
constexpr Row kRows[] = {{DType::f32, "f32", "F32", 4},
                         {DType::f64, "f64", "F64", 8},
                         {DType::bf16, "bf16", "BF16", 2},
                         {DType::f16, "f16", "F16", 2},
                         {DType::i32, "i32", "I32", 4},
                         {DType::i64, "i64", "I64", 8},
                         {DType::u8, "u8", "U8", 1},
                         {DType::u16, "u16", "U16", 2},
                         {DType::u32, "u32", "U32", 4},
                         {DType::u64, "u64", "U64", 8},
                         {DType::boolean, "bool", "BOOL", 1},
                         {DType::f8_e4m3, "f8_e4m3", "F8_E4M3", 1},
                         {DType::f8_e5m2, "f8_e5m2", "F8_E5M2", 1}};
const Row& row(DType dtype) { return kRows[static_cast<int>(dtype)]; }

template <class F>
auto visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    case DType::i32:
      return f(int32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::u64:
      return f(uint64_t{});
    case DType::boolean:
      return f(bool{});
    case DType::f8_e4m3:
      return f(f8_e4m3{});
    case DType::f8_e5m2:
      return f(f8_e5m2{});
  }
  throw InternalError("unknown dtype");
}
template <class T>  // a struct of bits, which converts to float and from it
inline constexpr bool is_stored = std::is_class_v<T>;
}  // namespace

size_t size_of(DType dtype) { return row(dtype).size; }
std::string_view name(DType dtype) { return row(dtype).name; }
std::string_view safetensors_name(DType dtype) { return row(dtype).safetensors; }
bool is_float(DType dtype) { return dtype <= DType::f16; }
bool is_integer(DType dtype) { return dtype >= DType::i32 && dtype <= DType::u64; }

DType parse_dtype(std::string_view name) {
  for (const auto& r : kRows)
    if (name == r.name) return r.dtype;
  throw UserError(str("unknown dtype \"", name,
                      "\"; known: f32 f64 bf16 f16 f8_e4m3 f8_e5m2 i32 i64 u8 u16 u32 u64 bool"));
}
DType parse_safetensors_dtype(std::string_view name) {
  for (const auto& r : kRows)
    if (name == r.safetensors) return r.dtype;
  throw UserError(str("unknown safetensors dtype \"", name, "\""));
}

double get_double(DType dtype, const void* data, int64_t i) {
  return visit(dtype, [&](auto tag) -> double {
    using T = decltype(tag);
    T v = static_cast<const T*>(data)[i];
    if constexpr (is_stored<T>)
      return static_cast<float>(v);
    else
      return static_cast<double>(v);
  });
}
void set_double(DType dtype, void* data, int64_t i, double value) {
  visit(dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (is_stored<T>)
      static_cast<T*>(data)[i] = T(static_cast<float>(value));
    else if constexpr (std::is_same_v<T, bool>)
      static_cast<T*>(data)[i] = value != 0;
    else if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>)
      static_cast<T*>(data)[i] =
          value < 0 ? static_cast<T>(static_cast<int64_t>(value)) : static_cast<T>(value);
    else
      static_cast<T*>(data)[i] = static_cast<T>(value);
    return 0;
  });
}
int64_t get_int(DType dtype, const void* data, int64_t i) {
  return visit(dtype, [&](auto tag) -> int64_t {
    using T = decltype(tag);
    T v = static_cast<const T*>(data)[i];
    if constexpr (is_stored<T>)
      return static_cast<int64_t>(static_cast<float>(v));
    else
      return static_cast<int64_t>(v);
  });
}
void set_int(DType dtype, void* data, int64_t i, int64_t value) {
  visit(dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (is_stored<T>)
      static_cast<T*>(data)[i] = T(static_cast<float>(value));
    else
      static_cast<T*>(data)[i] = static_cast<T>(value);
    return 0;
  });
}

uint16_t f16::encode(float value) {
  uint32_t u = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to infinity
  if (magnitude < 0x38800000u) {                        // subnormal: exact scaling, then the default rounding
    float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    return sign | static_cast<uint16_t>(std::nearbyint(scaled));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}
float f16::decode(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31,
           mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

namespace {
// Rounds `value` to this number of mantissa bits with the least normal exponent `least`; larger values than
// `most` get its code.
template <int mantissa, int least>
uint8_t encode8(float value, float most, uint8_t code_of_most) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), u = bits & 0x7fffffffu;
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  if (u > 0x7f800000u) return sign | 0x7f;
  if (u >= std::bit_cast<uint32_t>(most)) return sign | code_of_most;
  if (u < static_cast<uint32_t>(127 + least) << 23) {  // subnormal: exact scaling, then the default rounding
    const float scaled = std::bit_cast<float>(u) * std::bit_cast<float>((127u + mantissa - least) << 23);
    return sign | static_cast<uint8_t>(std::nearbyint(scaled));
  }
  const uint32_t rounded =
      (u + ((1u << (22 - mantissa)) - 1) + (u >> (23 - mantissa) & 1)) >> (23 - mantissa);
  return sign | static_cast<uint8_t>(rounded - (static_cast<uint32_t>(127 + least - 1) << mantissa));
}
float decode8(uint8_t bits, int mantissa, int least) {
  const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), least - mantissa)
                                        : std::ldexp(static_cast<float>(fraction + (1 << mantissa)),
                                                     exponent - 1 + least - mantissa);
  return bits & 0x80 ? -magnitude : magnitude;
}
}  // namespace

uint8_t f8_e4m3::encode(float value) { return encode8<3, -6>(value, kMost, 0x7e); }
float f8_e4m3::decode(uint8_t bits) {
  return (bits & 0x7f) == 0x7f ? std::numeric_limits<float>::quiet_NaN() : decode8(bits, 3, -6);
}
uint8_t f8_e5m2::encode(float value) { return encode8<2, -14>(value, kMost, 0x7b); }
float f8_e5m2::decode(uint8_t bits) {
  if ((bits & 0x7f) < 0x7c) return decode8(bits, 2, -14);
  const float beyond =
      (bits & 3) ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  return bits & 0x80 ? -beyond : beyond;
}

}  // namespace lockstep
