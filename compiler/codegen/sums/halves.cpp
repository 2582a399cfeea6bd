// Converts runs of bf16 and f16 to f32 and back.
#include "compiler/codegen/sums/halves.h"

#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
template <class Half>
void widen_run(const void* from, float* to, int64_t count) {
  const Half* halves = static_cast<const Half*>(from);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(halves[i]);
}
template <class Half>
void narrow_run(const float* from, void* to, int64_t count) {
  Half* halves = static_cast<Half*>(to);
  for (int64_t i = 0; i < count; ++i) halves[i] = Half(from[i]);
}
}  // namespace

void widen(DType dtype, const void* from, float* to, int64_t count) {
  LS_CHECK(is_half(dtype), name(dtype), " is no half");
  dtype == DType::bf16 ? widen_run<bf16>(from, to, count) : widen_run<f16>(from, to, count);
}
void narrow(DType dtype, const float* from, void* to, int64_t count) {
  LS_CHECK(is_half(dtype), name(dtype), " is no half");
  dtype == DType::bf16 ? narrow_run<bf16>(from, to, count) : narrow_run<f16>(from, to, count);
}

}  // namespace lockstep::compiler
