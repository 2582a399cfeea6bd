// Formulas of the pointwise rows: one scalar function each, over doubles for floats, over int64 for integers
// and bool.
#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/reference/array.h"
#include "core/ops/held_number.h"

namespace lockstep::compiler::reference {

namespace {

using Real1 = double (*)(double);
using Real2 = double (*)(double, double);
using Int1 = int64_t (*)(int64_t);
using Int2 = int64_t (*)(int64_t, int64_t);
using Compare = bool (*)(double, double);
using CompareInt = bool (*)(int64_t, int64_t);

int64_t wrapping(uint64_t value) { return static_cast<int64_t>(value); }
uint64_t word(int64_t value) { return static_cast<uint64_t>(value); }
int width_of(DType dtype) { return static_cast<int>(8 * size_of(dtype)); }

template <Real1 F>
std::vector<DenseArray> real1(const Call& call) {
  const DenseArray& x = call.in[0];
  LS_CHECK(x.real(), "[", call.node.op, "] is for floats");
  DenseArray out = make(x.dtype, x.shape);
  for (size_t k = 0; k < out.f.size(); ++k) out.f[k] = F(x.f[k]);
  return {out};
}

template <Real1 F, Int1 G>
std::vector<DenseArray> any1(const Call& call) {
  const DenseArray& x = call.in[0];
  if (x.real()) return real1<F>(call);
  DenseArray out = make(x.dtype, x.shape);
  for (size_t k = 0; k < out.i.size(); ++k) out.i[k] = G(x.i[k]);
  return {out};
}

void same_types(const Call& call, size_t first, size_t second) {
  const DenseArray &a = call.in[first], &b = call.in[second];
  LS_CHECK(a.dtype == b.dtype && a.shape == b.shape, "[", call.node.op, "] ", shape_text(a.dtype, a.shape),
           " and ", shape_text(b.dtype, b.shape));
}

// F on floats, G on integers of 64 bits and less, H on u64 (where the sign bit is a digit).
template <Real2 F, Int2 G, Int2 H>
std::vector<DenseArray> any2(const Call& call) {
  same_types(call, 0, 1);
  const DenseArray &a = call.in[0], &b = call.in[1];
  DenseArray out = make(a.dtype, a.shape);
  if (a.real())
    for (size_t k = 0; k < out.f.size(); ++k) out.f[k] = F(a.f[k], b.f[k]);
  else if (a.dtype == DType::u64)
    for (size_t k = 0; k < out.i.size(); ++k) out.i[k] = H(a.i[k], b.i[k]);
  else
    for (size_t k = 0; k < out.i.size(); ++k) out.i[k] = G(a.i[k], b.i[k]);
  return {out};
}

double no_float(double, double) { return 0; }

template <Int2 G>
std::vector<DenseArray> int2(const Call& call) {
  LS_CHECK(!call.in[0].real(), "[", call.node.op, "] is for integers");
  return any2<no_float, G, G>(call);
}

template <Compare F, CompareInt G, CompareInt H>
std::vector<DenseArray> compare(const Call& call) {
  same_types(call, 0, 1);
  const DenseArray &a = call.in[0], &b = call.in[1];
  DenseArray out = make(DType::boolean, a.shape);
  for (size_t k = 0; k < out.i.size(); ++k)
    out.i[k] = a.real() ? F(a.f[k], b.f[k]) : a.dtype == DType::u64 ? H(a.i[k], b.i[k]) : G(a.i[k], b.i[k]);
  return {out};
}

double maximum(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : (a < b ? b : a); }
double minimum(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : (b < a ? b : a); }

int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  uint64_t result = 1, square = word(base);
  for (; exponent; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return wrapping(result);
}

// The remainder has the sign of the divisor.
double modulo(double a, double b) {
  double left = std::fmod(a, b);
  return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}

// Division by zero gives 0, and the remainder is 0, too: integers have no infinity.
int64_t divide(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? wrapping(0 - word(a)) : a / b; }
int64_t divide_words(int64_t a, int64_t b) { return b == 0 ? 0 : wrapping(word(a) / word(b)); }
int64_t modulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  int64_t left = a % b;
  return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}
int64_t modulo_words(int64_t a, int64_t b) { return b == 0 ? 0 : wrapping(word(a) % word(b)); }

std::vector<DenseArray> logical_not(const Call& call) {
  const DenseArray& x = call.in[0];
  LS_CHECK(!x.real(), "[not] is for integers and bool");
  DenseArray out = make(x.dtype, x.shape);
  for (size_t k = 0; k < out.i.size(); ++k) out.i[k] = x.dtype == DType::boolean ? !x.i[k] : ~x.i[k];
  return {out};
}

// A shift by the width of the type or more leaves only the sign.
std::vector<DenseArray> shift(const Call& call) {
  same_types(call, 0, 1);
  const DenseArray &a = call.in[0], &b = call.in[1];
  const bool left = call.node.op == ops::shl, words = a.dtype == DType::u64;
  const uint64_t width = static_cast<uint64_t>(width_of(a.dtype));
  DenseArray out = make(a.dtype, a.shape);
  for (size_t k = 0; k < out.i.size(); ++k) {
    bool gone = word(b.i[k]) >= width;
    if (left)
      out.i[k] = gone ? 0 : wrapping(word(a.i[k]) << b.i[k]);
    else if (words)
      out.i[k] = gone ? 0 : wrapping(word(a.i[k]) >> b.i[k]);
    else
      out.i[k] = gone ? (a.i[k] < 0 ? -1 : 0) : a.i[k] >> b.i[k];
  }
  return {out};
}

std::vector<DenseArray> where(const Call& call) {
  same_types(call, 1, 2);
  const DenseArray &condition = call.in[0], &a = call.in[1], &b = call.in[2];
  LS_CHECK(condition.dtype == DType::boolean && condition.shape == a.shape, "[where] condition is ",
           shape_text(condition.dtype, condition.shape));
  DenseArray out = make(a.dtype, a.shape);
  for (size_t k = 0; k < condition.i.size(); ++k) {
    if (out.real())
      out.f[k] = condition.i[k] ? a.f[k] : b.f[k];
    else
      out.i[k] = condition.i[k] ? a.i[k] : b.i[k];
  }
  return {out};
}

// One rounding: an f32 product is exact in double; for f64, only the last step rounds.
std::vector<DenseArray> fused_multiply_add(const Call& call) {
  same_types(call, 0, 1);
  same_types(call, 0, 2);
  const DenseArray &a = call.in[0], &b = call.in[1], &c = call.in[2];
  DenseArray out = make(a.dtype, a.shape);
  for (size_t k = 0; k < out.f.size(); ++k)
    out.f[k] = a.dtype == DType::f64 ? std::fma(a.f[k], b.f[k], c.f[k])
                                     : std::fma(static_cast<float>(a.f[k]), static_cast<float>(b.f[k]),
                                                static_cast<float>(c.f[k]));
  for (size_t k = 0; k < out.i.size(); ++k) out.i[k] = wrapping(word(a.i[k]) * word(b.i[k]) + word(c.i[k]));
  return {out};
}

int64_t to_integer(double value) {  // towards zero; saturates, NaN is 0
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

std::vector<DenseArray> clamp(const Call& call) {
  const DenseArray& x = call.in[0];
  const Number lo = number_of(call.attrs(), "lo", x.dtype), hi = number_of(call.attrs(), "hi", x.dtype);
  DenseArray out = make(x.dtype, x.shape);
  for (size_t k = 0; k < out.f.size(); ++k) out.f[k] = minimum(maximum(x.f[k], lo.real()), hi.real());
  for (size_t k = 0; k < out.i.size(); ++k)
    out.i[k] = x.dtype == DType::u64
                   ? wrapping(std::min(std::max(word(x.i[k]), word(lo.bits())), word(hi.bits())))
                   : std::min(std::max(x.i[k], lo.bits()), hi.bits());
  return {out};
}

double limit(DType dtype, bool upper) {
  int bits = width_of(dtype);
  bool is_signed = dtype == DType::i32 || dtype == DType::i64;
  return upper ? std::ldexp(1.0, is_signed ? bits - 1 : bits) : is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
}

// Float to integer: towards zero, saturating at the ends of the dtype, NaN to 0.
int64_t saturating(double value, DType to) {
  if (std::isnan(value)) return 0;
  double whole = std::trunc(value);
  if (whole <= limit(to, false)) return to_integer(limit(to, false));
  if (whole >= limit(to, true))
    return to == DType::u64   ? -1
           : to == DType::i64 ? std::numeric_limits<int64_t>::max()
                              : static_cast<int64_t>(limit(to, true)) - 1;
  return to == DType::u64 ? wrapping(static_cast<uint64_t>(whole)) : static_cast<int64_t>(whole);
}

std::vector<DenseArray> convert(const Call& call) {
  const DenseArray& x = call.in[0];
  DType to = call.attrs().dtype("dtype");
  DenseArray out = make(to, x.shape);
  for (size_t k = 0; k < static_cast<size_t>(out.size()); ++k) {
    if (is_float8(to))
      out.i[k] = encode_float8(to, x.real() ? static_cast<float>(x.f[k]) : static_cast<float>(x.i[k]));
    else if (x.real() && out.real())
      out.f[k] = x.f[k];
    else if (x.real())
      out.i[k] = to == DType::boolean ? x.f[k] != 0 : saturating(x.f[k], to);
    else if (!out.real())
      out.i[k] = to == DType::boolean ? x.i[k] != 0 : x.i[k];
    else if (to == DType::f64)
      out.f[k] = x.dtype == DType::u64 ? static_cast<double>(word(x.i[k])) : static_cast<double>(x.i[k]);
    else
      out.f[k] = x.dtype == DType::u64 ? static_cast<float>(word(x.i[k]))
                                       : static_cast<float>(x.i[k]);  // one rounding, not two
  }
  return {out};
}

std::vector<DenseArray> bitcast(const Call& call) {
  DType to = call.attrs().dtype("dtype");
  HostTensor bytes = store(call.in[0], call.in[0].dtype);
  LS_CHECK(size_of(to) == size_of(bytes.dtype), "[bitcast] ", name(bytes.dtype), " to ", name(to));
  bytes.dtype = to;
  return {load(bytes)};
}

#define REAL(expression) real1<[](double x) -> double { return expression; }>
#define FORMULA2(real, integer, words)                          \
  any2<[](double a, double b) -> double { return real; },       \
       [](int64_t a, int64_t b) -> int64_t { return integer; }, \
       [](int64_t a, int64_t b) -> int64_t { return words; }>
#define COMPARE(op)                                                                               \
  compare<[](double a, double b) { return a op b; }, [](int64_t a, int64_t b) { return a op b; }, \
          [](int64_t a, int64_t b) { return word(a) op word(b); }>
#define INTEGER(expression) int2<[](int64_t a, int64_t b) -> int64_t { return expression; }>

const FormulaRow kPointwiseRows[] = {
    {"neg", any1<[](double x) { return -x; }, [](int64_t x) { return wrapping(0 - word(x)); }>},
    {"abs", any1<[](double x) { return std::fabs(x); },
                 [](int64_t x) { return x < 0 ? wrapping(0 - word(x)) : x; }>},
    {"sign", any1<[](double x) { return std::isnan(x) ? x : double(x > 0) - double(x < 0); },
                  [](int64_t x) { return int64_t(x > 0) - int64_t(x < 0); }>},
    {"floor", REAL(std::floor(x))},
    {"ceil", REAL(std::ceil(x))},
    {"round", REAL(std::nearbyint(x))},
    {"trunc", REAL(std::trunc(x))},
    {"sqrt", REAL(std::sqrt(x))},
    {"rsqrt", REAL(1.0 / std::sqrt(x))},
    {"reciprocal", REAL(1.0 / x)},
    {"exp", REAL(std::exp(x))},
    {"expm1", REAL(std::expm1(x))},
    {"log", REAL(std::log(x))},
    {"log1p", REAL(std::log1p(x))},
    {"sin", REAL(std::sin(x))},
    {"cos", REAL(std::cos(x))},
    {"tanh", REAL(std::tanh(x))},
    {"erf", REAL(std::erf(x))},
    {"atan", REAL(std::atan(x))},
    {"sigmoid", REAL(x >= 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)))},
    {"not", logical_not},
    {"add", FORMULA2(a + b, wrapping(word(a) + word(b)), wrapping(word(a) + word(b)))},
    {"sub", FORMULA2(a - b, wrapping(word(a) - word(b)), wrapping(word(a) - word(b)))},
    {"mul", FORMULA2(a* b, wrapping(word(a) * word(b)), wrapping(word(a) * word(b)))},
    {"div", FORMULA2(a / b, divide(a, b), divide_words(a, b))},
    {"pow", FORMULA2(std::pow(a, b), power(a, b), power(a, b))},
    {"maximum", FORMULA2(maximum(a, b), std::max(a, b), (word(a) < word(b) ? b : a))},
    {"minimum", FORMULA2(minimum(a, b), std::min(a, b), (word(b) < word(a) ? b : a))},
    {"remainder", FORMULA2(modulo(a, b), modulo(a, b), modulo_words(a, b))},
    {"and", INTEGER(a& b)},
    {"or", INTEGER(a | b)},
    {"xor", INTEGER(a ^ b)},
    {"shl", shift},
    {"shr", shift},
    {"eq", COMPARE(==)},
    {"ne", COMPARE(!=)},
    {"lt", COMPARE(<)},
    {"le", COMPARE(<=)},
    {"where", where},
    {"fma", fused_multiply_add},
    {"clamp", clamp},
    {"convert", convert},
    {"bitcast", bitcast},
};

}  // namespace

std::span<const FormulaRow> pointwise_formulas() { return kPointwiseRows; }

}  // namespace lockstep::compiler::reference
