// Pointwise rows: out[i] = f(in[i]...), inputs of equal shape. bf16 and f16 compute in f32 and round once;
// integers wrap.
#include <algorithm>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
using namespace rules;
using Grads = std::vector<Tensor>;
using Vjp = std::function<Grads(const VjpContext&)>;

enum class Takes { floats, numbers, integers, bits, any };  // bits: integers and bool

// Float8 is only for storage: there is no arithmetic on it.
bool takes(Takes what, DType dtype) {
  if (is_float8(dtype)) return what == Takes::any;
  switch (what) {
    case Takes::floats:
      return is_float(dtype);
    case Takes::numbers:
      return dtype != DType::boolean;
    case Takes::integers:
      return is_integer(dtype);
    case Takes::bits:
      return !is_float(dtype);
    case Takes::any:
      return true;
  }
  return false;
}
const char* words(Takes what) {
  switch (what) {
    case Takes::floats:
      return "floats";
    case Takes::numbers:
      return "numbers";
    case Takes::integers:
      return "integers";
    case Takes::bits:
      return "integers or bool";
    case Takes::any:
      return "any dtype";
  }
  return "";
}

auto infer_same(size_t count, Takes what) {
  return [=](const InferContext& c) -> Types {
    expect_count(c, count);
    for (size_t i = 0; i < count; ++i) {
      if (!takes(what, c.in[i].dtype))
        c.fail(str("input ", i, " is ", in_text(c, i), ", needs ", words(what), "; convert it?"));
      expect_like(c, 0, i);
    }
    return {c.in[0]};
  };
}
auto infer_compare(Takes what) {
  return [=](const InferContext& c) -> Types { return {{DType::boolean, infer_same(2, what)(c)[0].shape}}; };
}
Types infer_where(const InferContext& c) {
  expect_count(c, 3);
  expect_dtype(c, 0, DType::boolean, "the condition");
  expect_like(c, 1, 2);
  if (c.in[0].shape != c.in[1].shape)
    c.fail(str("shapes differ: condition ", in_text(c, 0), ", values ", in_text(c, 1)));
  return {c.in[1]};
}
// Converts f32 to float8, as quantize rounds it, but never from it: there is no arithmetic on float8.
Types infer_convert(const InferContext& c) {
  expect_count(c, 1);
  if (is_float8(c.in[0].dtype)) c.fail(str(in_text(c, 0), " is float8, which only products read"));
  return {{c.attrs.dtype("dtype"), c.in[0].shape}};
}
Types infer_bitcast(const InferContext& c) {
  expect_count(c, 1);
  DType to = c.attrs.dtype("dtype");
  if (size_of(to) != size_of(c.in[0].dtype))
    c.fail(str(in_text(c, 0), " to ", name(to), ": elements of ", size_of(c.in[0].dtype), " and ",
               size_of(to), " bytes"));
  return {{to, c.in[0].shape}};
}
Types infer_clamp(const InferContext& c) {
  const Types out = infer_same(1, Takes::numbers)(c);
  const DType dtype = out[0].dtype;
  expect_held(c, "lo", dtype), expect_held(c, "hi", dtype);
  const Number lo = number_of(c.attrs, "lo", dtype), hi = number_of(c.attrs, "hi", dtype);
  const bool ordered = is_float(dtype) ? lo.real() <= hi.real()
                       : dtype == DType::u64
                           ? static_cast<uint64_t>(lo.bits()) <= static_cast<uint64_t>(hi.bits())
                           : lo.bits() <= hi.bits();
  if (!ordered) c.fail(str("bounds are ", lo.text(), " and ", hi.text(), "; the lower comes first"));
  return out;
}

const Shape kA{3, 5}, kB{2, 1, 7}, kC{17};

// Samples: floats in [lo, hi] of two shapes; integers in [int_lo, int_hi) where the row takes them.
std::vector<Sample> samples(size_t count, Takes what, double lo = -2, double hi = 2, int64_t int_lo = -4,
                            int64_t int_hi = 5) {
  std::vector<Sample> out;
  if (what == Takes::floats || what == Takes::numbers || what == Takes::any) {
    for (const Shape& shape : {kA, kB}) out.push_back({Types(count, f32(shape)), {}, lo, hi, int_lo, int_hi});
  }
  if (what != Takes::floats) out.push_back(integers(Types(count, i32(kA)), {}, int_lo, int_hi));
  if (what == Takes::integers) out.push_back(integers(Types(count, i64(kB)), {}, int_lo, int_hi));
  if (what == Takes::bits || what == Takes::any) out.push_back(integers(Types(count, boolean(kC)), {}, 0, 2));
  return out;
}

Op unary(OpId id, ScalarCode scalar, Takes what, Vjp vjp, std::vector<Sample> rows,
         std::vector<int> linear = {}) {
  return {.id = id,
          .infer = infer_same(1, what),
          .split = same_dims,
          .vjp = std::move(vjp),
          .scalar = scalar,
          .linear = std::move(linear),
          .samples = std::move(rows)};
}
Op two(OpId id, ScalarCode scalar, Takes what, Vjp vjp, std::vector<Sample> rows,
       std::vector<int> linear = {}, bool joint = false) {
  return {.id = id,
          .infer = infer_same(2, what),
          .split = same_dims,
          .vjp = std::move(vjp),
          .scalar = scalar,
          .linear = std::move(linear),
          .samples = std::move(rows),
          .joint = joint};
}
Op compare(OpId id, ScalarCode scalar, Takes what) {
  return {.id = id,
          .infer = infer_compare(what),
          .split = same_dims,
          .vjp = [](const VjpContext&) { return Grads(2); },
          .scalar = scalar,
          .samples = samples(2, what, -2, 2, 0, 3)};
}

Vjp flat(size_t count) {  // piecewise constant: the gradient is zero where it is defined
  return [=](const VjpContext&) { return Grads(count); };
}
Tensor f(OpId op, std::vector<Tensor> in) { return apply1(op, in); }

// Shares of the gradient of maximum and minimum: all to the winner, half each at a tie.
Grads pick(const VjpContext& c, OpId op) {
  Tensor a = c.in[0], b = c.in[1], dy = c.grad[0], none = full_like(dy, 0), half = dy * 0.5;
  Tensor wins = op == ops::maximum ? less(b, a) : less(a, b), ties = equal(a, b);
  return {where(ties, half, where(wins, dy, none)), where(ties, half, where(wins, none, dy))};
}

std::vector<Op> unary_rows() {
  using C = const VjpContext&;
  auto all = samples(1, Takes::numbers), real = samples(1, Takes::floats),
       positive = samples(1, Takes::floats, 0.25, 4);
  return {
      unary(ops::neg, {"-{0}", ScalarVerb::neg}, Takes::numbers, [](C c) { return Grads{-c.grad[0]}; }, all,
            {0}),
      unary(
          ops::abs, "ls_abs({0})", Takes::numbers,
          [](C c) { return Grads{c.grad[0] * f(ops::sign, {c.in[0]})}; }, all),
      unary(ops::sign, {"ls_sign({0})", 4}, Takes::numbers, flat(1), all),
      unary(ops::floor, "ls_floor({0})", Takes::floats, flat(1), real),
      unary(ops::ceil, "ls_ceil({0})", Takes::floats, flat(1), real),
      unary(ops::round, "ls_round({0})", Takes::floats, flat(1), real),
      unary(ops::trunc, "ls_trunc({0})", Takes::floats, flat(1), real),
      unary(
          ops::sqrt, {"ls_sqrt({0})", 9}, Takes::floats,
          [](C c) { return Grads{c.grad[0] * 0.5 / c.out[0]}; }, positive),
      unary(
          ops::rsqrt, {"ls_rsqrt({0})", 9}, Takes::floats,
          [](C c) { return Grads{c.grad[0] * -0.5 * (c.out[0] / c.in[0])}; }, positive),
      unary(
          ops::reciprocal, {"ls_reciprocal({0})", 5}, Takes::floats,
          [](C c) { return Grads{-(c.grad[0] * (c.out[0] * c.out[0]))}; }, positive),
      unary(
          ops::exp, {"ls_exp({0})", 17}, Takes::floats, [](C c) { return Grads{c.grad[0] * c.out[0]}; },
          real),
      unary(
          ops::expm1, {"ls_expm1({0})", 23}, Takes::floats,
          [](C c) { return Grads{c.grad[0] * (c.out[0] + 1.0)}; }, real),
      unary(
          ops::log, {"ls_log({0})", 25}, Takes::floats, [](C c) { return Grads{c.grad[0] / c.in[0]}; },
          positive),
      unary(
          ops::log1p, {"ls_log1p({0})", 41}, Takes::floats,
          [](C c) { return Grads{c.grad[0] / (c.in[0] + 1.0)}; }, samples(1, Takes::floats, -0.5, 3)),
      unary(
          ops::sin, {"ls_sin({0})", 61}, Takes::floats, [](C c) { return Grads{c.grad[0] * cos(c.in[0])}; },
          real),
      unary(
          ops::cos, {"ls_cos({0})", 61}, Takes::floats,
          [](C c) { return Grads{-(c.grad[0] * sin(c.in[0]))}; }, real),
      unary(
          ops::atan, {"ls_atan({0})", 201}, Takes::floats,
          [](C c) { return Grads{c.grad[0] / (c.in[0] * c.in[0] + 1.0)}; }, samples(1, Takes::floats, -9, 9)),
      unary(
          ops::tanh, {"ls_tanh({0})", 25}, Takes::floats,
          [](C c) { return Grads{c.grad[0] * (1.0 - c.out[0] * c.out[0])}; }, real),
      unary(
          ops::erf, {"ls_erf({0})", 41}, Takes::floats,
          [](C c) { return Grads{c.grad[0] * (exp(-(c.in[0] * c.in[0])) * 1.1283791670955126)}; }, real),
      unary(
          ops::sigmoid, {"ls_sigmoid({0})", 25}, Takes::floats,
          [](C c) { return Grads{c.grad[0] * (c.out[0] * (1.0 - c.out[0]))}; }, real),
      unary(ops::not_, "ls_not({0})", Takes::bits, flat(1), samples(1, Takes::bits)),
  };
}

std::vector<Op> binary_rows() {
  using C = const VjpContext&;
  auto all = samples(2, Takes::numbers), divisors = samples(2, Takes::numbers, 0.5, 3, 1, 6);
  auto pow_vjp = [](C c) {
    Tensor a = c.in[0], b = c.in[1], y = c.out[0], dy = c.grad[0];
    Grads out(2);
    Tensor none = full_like(a, 0);
    if (c.wants[0])  // x^0 does not move, at x = 0 neither
      out[0] = where(equal(b, none), none, dy * (b * f(ops::pow, {a, b - 1.0})));
    if (c.wants[1])  // 0^b does not move with b >= 0
      out[1] = where(equal(a, none) && less_equal(none, b), none, dy * (y * log(a)));
    return out;
  };
  return {
      two(
          ops::add, {"{0} + {1}", ScalarVerb::add}, Takes::numbers,
          [](C c) { return Grads{c.grad[0], c.grad[0]}; }, all, {0, 1}, true),
      two(
          ops::sub, {"{0} - {1}", ScalarVerb::sub}, Takes::numbers,
          [](C c) { return Grads{c.grad[0], c.wants[1] ? -c.grad[0] : Tensor{}}; }, all, {0, 1}, true),
      two(ops::mul, {"{0} * {1}", ScalarVerb::mul}, Takes::numbers,
          [](C c) {
            return Grads{c.wants[0] ? c.grad[0] * c.in[1] : Tensor{},
                         c.wants[1] ? c.grad[0] * c.in[0] : Tensor{}};
          },
          all, {0, 1}),
      two(
          ops::div, {"{0} / {1}", ScalarVerb::div}, Takes::numbers,  // integers: towards zero
          [](C c) {
            return Grads{c.wants[0] ? c.grad[0] / c.in[1] : Tensor{},
                         c.wants[1] ? -(c.grad[0] * (c.out[0] / c.in[1])) : Tensor{}};
          },
          divisors),
      two(ops::pow, {"ls_pow({0}, {1})", 401}, Takes::floats, pow_vjp, samples(2, Takes::floats, 0.25, 3)),
      two(
          ops::maximum, "ls_maximum({0}, {1})", Takes::numbers, [](C c) { return pick(c, ops::maximum); },
          all),
      two(
          ops::minimum, "ls_minimum({0}, {1})", Takes::numbers, [](C c) { return pick(c, ops::minimum); },
          all),
      two(
          ops::remainder, {"ls_remainder({0}, {1})", 61},
          Takes::numbers,  // a - floor(a / b) b: the sign of b
          [](C c) {
            return Grads{c.grad[0], c.wants[1] ? -(c.grad[0] * floor_divide(c.in[0], c.in[1])) : Tensor{}};
          },
          divisors),
      two(ops::and_, "{0} & {1}", Takes::bits, flat(2), samples(2, Takes::bits)),
      two(ops::or_, "{0} | {1}", Takes::bits, flat(2), samples(2, Takes::bits)),
      two(ops::xor_, "{0} ^ {1}", Takes::bits, flat(2), samples(2, Takes::bits)),
      two(ops::shl, {"{0} << {1}", ScalarVerb::shl}, Takes::integers, flat(2),
          samples(2, Takes::integers, 0, 0, 0, 9)),
      two(ops::shr, {"{0} >> {1}", ScalarVerb::shr}, Takes::integers, flat(2),
          samples(2, Takes::integers, 0, 0, 0, 9)),
      compare(ops::eq, "ls_eq({0}, {1})", Takes::any),
      compare(ops::ne, "ls_ne({0}, {1})", Takes::any),
      compare(ops::lt, "ls_lt({0}, {1})", Takes::numbers),
      compare(ops::le, "ls_le({0}, {1})", Takes::numbers),
  };
}

std::vector<Op> other_rows() {
  using C = const VjpContext&;
  auto choose = [](C c) {
    Tensor none = full_like(c.grad[0], 0);
    return Grads{{},
                 c.wants[1] ? where(c.in[0], c.grad[0], none) : Tensor{},
                 c.wants[2] ? where(c.in[0], none, c.grad[0]) : Tensor{}};
  };
  auto fused = [](C c) {
    return Grads{c.wants[0] ? c.grad[0] * c.in[1] : Tensor{}, c.wants[1] ? c.grad[0] * c.in[0] : Tensor{},
                 c.grad[0]};
  };
  auto inside = [](C c) {  // the bounds belong to the inside, as in PyTorch
    Tensor x = c.in[0], dy = c.grad[0];
    Tensor in_range = f(ops::and_, {less_equal(full_like(x, c.attrs.number("lo")), x),
                                    less_equal(x, full_like(x, c.attrs.number("hi")))});
    return Grads{where(in_range, dy, full_like(dy, 0))};
  };
  return {
      {.id = ops::where,
       .infer = infer_where,
       .split = same_dims,
       .vjp = choose,
       .scalar = {"ls_where({0}, {1}, {2})", ScalarVerb::select},
       .linear = {1, 2},
       .samples = {{{boolean(kA), f32(kA), f32(kA)}, {}, -2, 2, 0, 2},
                   {{boolean(kB), f32(kB), f32(kB)}, {}, -2, 2, 0, 2},
                   {{boolean(kC), i32(kC), i32(kC)}, {}, -2, 2, 0, 2}},
       .joint = true},
      {.id = ops::fma,
       .infer = infer_same(3, Takes::floats),
       .split = same_dims,
       .vjp = fused,
       .scalar = "ls_fma({0}, {1}, {2})",
       .samples = samples(3, Takes::floats)},
      {.id = ops::clamp,
       .attrs = {{"lo", AttrType::number}, {"hi", AttrType::number}},
       .infer = infer_clamp,
       .split = same_dims,
       .vjp = inside,
       .scalar = "ls_clamp({0}, {lo}, {hi})",
       .samples = {floats({f32(kA)}, {{"lo", -0.5}, {"hi", 1.25}}),
                   floats({f32(kB)}, {{"lo", 0.0}, {"hi", 0.0}}),
                   integers({i32(kC)}, {{"lo", -1}, {"hi", 2}}, -4, 5),
                   integers({i64(kC)}, {{"lo", -((int64_t{1} << 53) + 1)}, {"hi", (int64_t{1} << 53) + 1}},
                            -(int64_t{1} << 61), int64_t{1} << 61)}},
  };
}

std::vector<Op> conversion_rows() {
  auto back = [](const VjpContext& c) {
    return Grads{is_float(c.in[0].dtype()) ? convert(c.grad[0], c.in[0].dtype()) : Tensor{}};
  };
  return {
      {.id = ops::convert,
       .attrs = {{"dtype", AttrType::dtype}},
       .infer = infer_convert,
       .split = same_dims,
       .vjp = back,
       .scalar = {"ls_to_{dtype}({0})", ScalarVerb::convert},
       .samples = {floats({f32(kA)}, {{"dtype", DType::f64}}), floats({f32(kB)}, {{"dtype", DType::bf16}}),
                   floats({f32(kC)}, {{"dtype", DType::i32}}),
                   integers({i32(kC)}, {{"dtype", DType::f32}}, -4, 5),
                   integers({boolean(kA)}, {{"dtype", DType::i64}}, 0, 2),
                   integers({i32(kA)}, {{"dtype", DType::boolean}}, -1, 2),
                   floats({f32({48, 32})}, {{"dtype", DType::f8_e4m3}}, -600, 600),
                   floats({f32({3, 40})}, {{"dtype", DType::f8_e5m2}}, -1e-4, 1e-4)}},
      {.id = ops::bitcast,
       .attrs = {{"dtype", AttrType::dtype}},
       .infer = infer_bitcast,
       .split = same_dims,
       .scalar = {"ls_from_bits_{dtype}(ls_bits_{from}({0}))", ScalarVerb::bitcast},
       .samples = {floats({f32(kA)}, {{"dtype", DType::u32}}),
                   integers({i32(kB)}, {{"dtype", DType::u32}}, -4, 5)}},
  };
}
}  // namespace

std::span<const Op> pointwise_ops() {
  static const std::vector<Op> rows = [] {
    std::vector<Op> out;
    for (auto& part : {unary_rows(), binary_rows(), other_rows(), conversion_rows()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }();
  return rows;
}

}  // namespace lockstep
