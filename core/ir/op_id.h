// An op as a handle: one small integer per name. The built-in ops are compile-time constants (ops::wait);
// other names are interned when they are first met.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string_view>

// Every built-in op. The second list has those whose names are C++ keywords: their constants end in '_'.
// clang-format off
#define LOCKSTEP_OPS(X) \
  /* pointwise */ X(abs) X(add) X(atan) X(bitcast) X(ceil) X(clamp) X(convert) X(cos) X(div) X(eq) X(erf) X(exp) \
    X(expm1) X(floor) X(fma) X(le) X(log) X(log1p) X(lt) X(maximum) X(minimum) X(mul) X(ne) X(neg) X(pow) \
    X(reciprocal) X(remainder) X(round) X(rsqrt) X(shl) X(shr) X(sigmoid) X(sign) X(sin) X(sqrt) X(sub) \
    X(tanh) X(trunc) X(where) \
  /* creation, random */ X(full) X(iota) X(rng_bits) X(rng_uniform) \
  /* reduce */ X(argmax) X(argmin) X(max) X(min) X(prod) X(sum) \
  /* view, index */ X(broadcast) X(concat) X(index_add) X(pad) X(permute) X(reshape) X(slice) X(take) \
  /* contract */ X(dot) X(linear) \
  /* float8 */ X(linear_float8) X(linear_float8_grad) X(quantize) X(scaled_mm) \
  /* windows */ X(avg_pool) X(convolution) X(convolution_grad_input) X(convolution_grad_weight) X(max_pool) \
    X(max_pool_grad) X(windows) X(windows_grad) \
  /* composite */ X(clip_scale) X(cross_entropy) X(cross_entropy_grad) X(dropout) X(embedding) \
    X(embedding_grad) X(gelu) X(gelu_grad) X(global_norm) X(layer_norm) X(layer_norm_grad) X(rms_norm) \
    X(rms_norm_grad) X(rope) X(sdpa) X(sdpa_grad) X(silu) X(silu_grad) X(softmax) X(stop_gradient) \
  /* update */ X(adamw) X(put_rows) X(sgd) X(update) \
  /* lanes */ X(lane_count) X(lane_rows) X(lane_sum) X(local_rows) X(norm_limbs) X(norm_of_limbs) X(spread_rows) \
    X(sum_lanes) X(sum_rows) \
  /* collective */ X(all_gather_start) X(all_reduce_start) X(lane_exchange_start) X(lane_gather_start) \
    X(model_exchange_start) \
    X(model_gather_start) X(model_wait) X(redistribute) X(wait) \
  /* structural */ X(custom_gradient) X(fused) X(grad) X(vjp)
// clang-format on
#define LOCKSTEP_KEYWORD_OPS(X) X(and) X(not) X(or) X(xor)

namespace lockstep {

namespace op_detail {
#define LOCKSTEP_OP_NAME(name) #name,
inline constexpr auto kNames =
    std::to_array<std::string_view>({LOCKSTEP_OPS(LOCKSTEP_OP_NAME) LOCKSTEP_KEYWORD_OPS(LOCKSTEP_OP_NAME)});
#undef LOCKSTEP_OP_NAME

consteval uint32_t place_of(std::string_view name) {
  for (uint32_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return i;
  throw "no op of the tree has this name: intern() takes any";  // ends the compilation
}
}  // namespace op_detail

class OpId {
 public:
  constexpr OpId() = default;  // no op
  // From a literal that names a built-in op; any other does not compile.
  template <size_t N>
  consteval OpId(const char (&name)[N]) : index_(op_detail::place_of({name, N - 1})) {}

  std::string_view name() const;  // "" for no op
  constexpr size_t index() const { return index_; }
  constexpr bool operator==(const OpId&) const = default;

 private:
  friend OpId intern(std::string_view name);
  constexpr explicit OpId(uint32_t index) : index_(index) {}
  uint32_t index_ = ~uint32_t{0};
};

// Returns the handle of a name, always the same one; a new name gets the next index. Thread-safe.
OpId intern(std::string_view name);

std::ostream& operator<<(std::ostream& out, OpId op);  // its name

namespace ops {
#define LOCKSTEP_OP_CONSTANT(name) inline constexpr OpId name{#name};
#define LOCKSTEP_KEYWORD_OP_CONSTANT(name) inline constexpr OpId name##_{#name};
LOCKSTEP_OPS(LOCKSTEP_OP_CONSTANT)
LOCKSTEP_KEYWORD_OPS(LOCKSTEP_KEYWORD_OP_CONSTANT)
#undef LOCKSTEP_OP_CONSTANT
#undef LOCKSTEP_KEYWORD_OP_CONSTANT
}  // namespace ops

}  // namespace lockstep

template <>
struct std::hash<lockstep::OpId> {
  size_t operator()(lockstep::OpId op) const { return op.index(); }
};
