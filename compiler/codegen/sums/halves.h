// Conversion of runs between f32 and bf16 or f16, for calls that compute in f32 and round once.
#pragma once

#include <cstdint>

#include "core/types/dtype.h"

namespace lockstep::compiler {

inline bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }
// to[0..count) = the elements of `from`, which are bf16 or f16; exact.
void widen(DType dtype, const void* from, float* to, int64_t count);
// The reverse, rounded to nearest even.
void narrow(DType dtype, const float* from, void* to, int64_t count);

}  // namespace lockstep::compiler
