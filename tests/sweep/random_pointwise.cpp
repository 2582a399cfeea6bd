// Functions of elements that a random graph may draw.
#include <algorithm>
#include <cmath>

#include "tests/sweep/random_values.h"

namespace lockstep::sweep {

namespace {
using Unary = Tensor (*)(Tensor);

// f of a float, smooth where |x| <= domain; no result is larger than `most`.
Move smooth(const char* name, double domain, double most, Unary f) {
  return {name, 2, false, [=](RandomValues& values) {
            auto x = values.floats();
            if (!x) return false;
            values.add(f(values.within(*x, domain).tensor), most);
            return true;
          }};
}
// f of an exact float, whose result is exact with `more` further digits (kRounded: it is not).
Move kinked(const char* name, double most, int more, Unary f) {
  return {name, 1, true, [=](RandomValues& values) {
            auto x = values.exact_floats();
            if (!x) return false;
            values.add(f(x->tensor), std::max(most, x->most),
                       more == kRounded ? kRounded : x->fraction + more);
            return true;
          }};
}
// a and b, floats of one dtype that broadcast, and how exact they are together.
Move binary(const char* name, bool kinks,
            const std::function<void(RandomValues&, Known, Known, bool exact)>& draw) {
  return {name, 3, kinks, [=](RandomValues& values) {
            auto a = kinks ? values.exact_floats() : values.floats();
            if (!a) return false;
            Known b = values.beside(*a, kinks);
            const bool exact = a->exact() && b.exact();
            if (values.chance(0.5)) std::swap(*a, b);
            draw(values, *a, b, exact);
            return true;
          }};
}
// Integers of one shape.
Move whole(const char* name, double most, Tensor (*f)(Tensor, Tensor)) {
  return {name, 1, false, [=](RandomValues& values) {
            auto a = values.any([](const Known& x) { return x.is_int(); });
            if (!a) return false;
            const Known b = values.beside(*a);
            values.add(f(a->tensor, b.tensor), most > 0 ? most : 64 * (a->most + 1) * (b.most + 1), 0);
            return true;
          }};
}
// What is not continuous: of integers, bool, or exact floats.
Move compare(const char* name, Tensor (*f)(Tensor, Tensor)) {
  return {name, 1, true, [=](RandomValues& values) {
            auto a = values.any([](const Known& x) { return x.exact() && !x.is_bool(); });
            if (!a) return false;
            const Known b = values.beside(*a, true);
            values.add(f(a->tensor, b.tensor), 1, 0);
            return true;
          }};
}
Move logic(const char* name, Tensor (*f)(Tensor, Tensor)) {
  return {name, 1, false, [=](RandomValues& values) {
            auto a = values.any([](const Known& x) { return x.is_bool(); });
            if (!a) return false;
            values.add(f(a->tensor, values.beside(*a).tensor), 1, 0);
            return true;
          }};
}
// A condition of any kind that broadcasts with x.
Tensor condition_for(RandomValues& values, const Known& x) {
  auto known = values.any([&](const Known& c) {
    return c.is_bool() && c.size() > 0 && x.ndim() >= c.ndim() &&
           std::equal(c.shape().rbegin(), c.shape().rend(), x.shape().rbegin(),
                      [](int64_t m, int64_t n) { return m == n || m == 1; });
  });
  return known ? known->tensor : values.input(DType::boolean, x.shape()).tensor;
}

Move conversion(const char* name, DType to, bool kinks, const RandomValues::Wanted& from) {
  return {name, 2, kinks, [=](RandomValues& values) {
            auto x = values.any(from);
            if (!x) return false;
            const bool cut = to == DType::i32 || to == DType::boolean;
            values.add(convert(x->tensor, to), to == DType::boolean ? 1 : x->most, cut ? 0 : x->fraction);
            return true;
          }};
}

void smooth_functions(std::vector<Move>& out) {
  out.insert(out.end(), {smooth("sin", 8, 1, [](Tensor x) { return sin(x); }),
                         smooth("cos", 8, 1, [](Tensor x) { return cos(x); }),
                         smooth("tan", 1, 2, [](Tensor x) { return tan(x); }),
                         smooth("asin", 0.75, 1, [](Tensor x) { return asin(x); }),
                         smooth("acos", 0.75, 3, [](Tensor x) { return acos(x); }),
                         smooth("atan", 8, 2, [](Tensor x) { return atan(x); }),
                         smooth("sinh", 2, 4, [](Tensor x) { return sinh(x); }),
                         smooth("cosh", 2, 4, [](Tensor x) { return cosh(x); }),
                         smooth("tanh", 8, 1, [](Tensor x) { return tanh(x); }),
                         smooth("asinh", 8, 3, [](Tensor x) { return asinh(x); }),
                         smooth("atanh", 0.75, 1, [](Tensor x) { return atanh(x); }),
                         smooth("acosh", 4, 4, [](Tensor x) { return acosh(square(x) + 1.5); }),
                         smooth("erf", 8, 1, [](Tensor x) { return erf(x); }),
                         smooth("erfinv", 0.75, 1, [](Tensor x) { return erfinv(x); }),
                         smooth("sigmoid", 8, 1, [](Tensor x) { return sigmoid(x); }),
                         smooth("exp", 2, 8, [](Tensor x) { return exp(x); }),
                         smooth("expm1", 2, 8, [](Tensor x) { return expm1(x); }),
                         smooth("exp2", 2, 4, [](Tensor x) { return exp2(x); }),
                         smooth("log", 8, 5, [](Tensor x) { return log(square(x) + 0.5); }),
                         smooth("log2", 8, 7, [](Tensor x) { return log2(square(x) + 0.5); }),
                         smooth("log10", 8, 2, [](Tensor x) { return log10(square(x) + 0.5); }),
                         smooth("log1p", 8, 5, [](Tensor x) { return log1p(square(x)); }),
                         smooth("sqrt", 8, 9, [](Tensor x) { return sqrt(square(x) + 0.5); }),
                         smooth("rsqrt", 8, 2, [](Tensor x) { return rsqrt(square(x) + 0.5); }),
                         smooth("reciprocal", 8, 2, [](Tensor x) { return reciprocal(square(x) + 0.5); }),
                         smooth("pow 1.7", 2, 12, [](Tensor x) { return pow(square(x) + 0.5, 1.7); }),
                         smooth("pow 3", 2, 8, [](Tensor x) { return pow(x, 3); }),
                         smooth("pow of 1.5", 4, 6, [](Tensor x) { return pow(1.5, x); }),
                         smooth("gelu", 8, 8, [](Tensor x) { return gelu(x); }),
                         smooth("gelu_erf", 8, 8, [](Tensor x) { return gelu_erf(x); }),
                         smooth("silu", 8, 8, [](Tensor x) { return silu(x); }),
                         smooth("mish", 8, 8, [](Tensor x) { return mish(x); }),
                         smooth("softplus", 8, 9, [](Tensor x) { return softplus(x); }),
                         smooth("logsigmoid", 8, 9, [](Tensor x) { return logsigmoid(x); }),
                         smooth("softsign", 8, 1, [](Tensor x) { return softsign(square(x)); }),
                         smooth("tanhshrink", 8, 8, [](Tensor x) { return tanhshrink(x); }),
                         smooth("negative", 8, 8, [](Tensor x) { return -x; }),
                         smooth("number minus", 8, 10, [](Tensor x) { return 1.5 - x; }),
                         smooth("number over", 8, 3, [](Tensor x) { return 1.5 / (square(x) + 0.5); }),
                         smooth("nan_to_num", 8, 8, [](Tensor x) { return nan_to_num(x); })});
}
void kinked_functions(std::vector<Move>& out) {
  out.insert(out.end(),
             {kinked("abs", 0, 0, [](Tensor x) { return abs(x); }),
              kinked("sign", 1, 0, [](Tensor x) { return sign(x) * x; }),
              kinked("relu", 0, 0, [](Tensor x) { return relu(x); }),
              kinked("relu6", 0, 0, [](Tensor x) { return relu6(x); }),
              kinked("hardtanh", 0, 0, [](Tensor x) { return hardtanh(x, -0.5, 1); }),
              kinked("leaky_relu", 0, 2, [](Tensor x) { return leaky_relu(x, 0.25); }),
              kinked("elu", 1, kRounded, [](Tensor x) { return elu(x); }),
              kinked("selu", 20, kRounded, [](Tensor x) { return selu(x); }),
              kinked("celu", 1, kRounded, [](Tensor x) { return celu(x, 0.7); }),
              kinked("hardswish", 0, kRounded, [](Tensor x) { return hardswish(x); }),
              kinked("hardsigmoid", 1, kRounded, [](Tensor x) { return hardsigmoid(x); }),
              kinked("hardshrink", 0, 0, [](Tensor x) { return hardshrink(x); }),
              kinked("softshrink", 0, 1, [](Tensor x) { return softshrink(x); }),
              kinked("clamp", 1, 0, [](Tensor x) { return clamp(x, -0.75, 1); }),
              kinked("floor", 8, 0, [](Tensor x) { return x - floor(x); }),
              kinked("ceil", 8, 0, [](Tensor x) { return x + ceil(x); }),
              kinked("round", 8, 0, [](Tensor x) { return x - round(x); }),
              kinked("trunc", 8, 0, [](Tensor x) { return trunc(x) * 0.5 + x; }),
              kinked("stop_gradient", 8, kRounded, [](Tensor x) { return x * stop_gradient(x); })});
}
void binary_functions(std::vector<Move>& out) {
  out.push_back(binary("add", false, [](RandomValues& v, Known a, Known b, bool exact) {
    v.add(a.tensor + b.tensor, a.most + b.most, exact ? std::max(a.fraction, b.fraction) : kRounded);
  }));
  out.push_back(binary("sub", false, [](RandomValues& v, Known a, Known b, bool exact) {
    v.add(a.tensor - b.tensor, a.most + b.most, exact ? std::max(a.fraction, b.fraction) : kRounded);
  }));
  out.push_back(binary("mul", false, [](RandomValues& v, Known a, Known b, bool exact) {
    v.add(a.tensor * b.tensor, a.most * b.most, exact ? a.fraction + b.fraction : kRounded);
  }));
  out.push_back(binary("div", false, [](RandomValues& v, Known a, Known b, bool) {
    v.add(a.tensor / (square(b.tensor) + 0.5), 2 * a.most);
  }));
  out.push_back(binary("pow", false, [](RandomValues& v, Known a, Known b, bool) {
    const Tensor base = square(v.within(a, 1).tensor) + 0.5, power = v.within(b, 2).tensor;
    v.add(pow(base, power), 4);
  }));
  out.push_back(binary("lerp", false, [](RandomValues& v, Known a, Known b, bool) {
    v.add(lerp(a.tensor, b.tensor, 0.3), a.most + b.most);
  }));
  out.push_back(binary("fma", false, [](RandomValues& v, Known a, Known, bool) {
    v.add(fma(a.tensor, sin(a.tensor), a.tensor), 2 * a.most);
  }));
  out.push_back(binary("maximum", true, [](RandomValues& v, Known a, Known b, bool) {
    v.add(maximum(a.tensor, b.tensor), std::max(a.most, b.most), std::max(a.fraction, b.fraction));
  }));
  out.push_back(binary("minimum", true, [](RandomValues& v, Known a, Known b, bool) {
    v.add(minimum(a.tensor, b.tensor), std::max(a.most, b.most), std::max(a.fraction, b.fraction));
  }));
  out.push_back(binary("prelu", true, [](RandomValues& v, Known a, Known, bool) {
    v.add(prelu(a.tensor, v.input(a.tensor.dtype(), {1}).tensor), 2 * a.most);
  }));
  out.push_back(binary("where", false, [](RandomValues& v, Known a, Known b, bool exact) {
    v.add(where(condition_for(v, a.size() < b.size() ? b : a), a.tensor, b.tensor), std::max(a.most, b.most),
          exact ? std::max(a.fraction, b.fraction) : kRounded);
  }));
  out.push_back(binary("masked_fill", false, [](RandomValues& v, Known a, Known, bool) {
    v.add(masked_fill(a.tensor, condition_for(v, a), -0.5), std::max(a.most, 0.5),
          a.exact() ? std::max(a.fraction, 1) : kRounded);
  }));
}
void whole_functions(std::vector<Move>& out) {
  out.insert(
      out.end(),
      {whole("add of integers", 0, [](Tensor a, Tensor b) { return a + b; }),
       whole("sub of integers", 0, [](Tensor a, Tensor b) { return a - b; }),
       whole("mul of integers", 0, [](Tensor a, Tensor b) { return a * b; }),
       whole("div of integers", 0, [](Tensor a, Tensor b) { return a / b; }),
       whole("remainder of integers", 0, [](Tensor a, Tensor b) { return remainder(a, b); }),
       whole("floor_divide of integers", 0, [](Tensor a, Tensor b) { return floor_divide(a, b); }),
       whole("maximum of integers", 0, [](Tensor a, Tensor b) { return maximum(a, b); }),
       whole("bitwise_and", 2048, [](Tensor a, Tensor b) { return a & b; }),
       whole("bitwise_or", 2048, [](Tensor a, Tensor b) { return a | b; }),
       whole("bitwise_xor", 2048, [](Tensor a, Tensor b) { return a ^ b; }),
       whole("bitwise_left_shift", 1e5,
             [](Tensor a, Tensor b) { return bitwise_left_shift(a, b & full_like(b, 3)); }),
       whole("bitwise_right_shift", 0,
             [](Tensor a, Tensor b) { return bitwise_right_shift(a, b & full_like(b, 3)); }),
       compare("equal", [](Tensor a, Tensor b) { return equal(a, b); }),
       compare("not_equal", [](Tensor a, Tensor b) { return a != b; }),
       compare("less", [](Tensor a, Tensor b) { return a < b; }),
       compare("less_equal", [](Tensor a, Tensor b) { return a <= b; }),
       compare("greater", [](Tensor a, Tensor b) { return a > b; }),
       compare("greater_equal", [](Tensor a, Tensor b) { return a >= b; }),
       logic("logical_and", [](Tensor a, Tensor b) { return a && b; }),
       logic("logical_or", [](Tensor a, Tensor b) { return a || b; }),
       logic("logical_xor", [](Tensor a, Tensor b) { return logical_xor(a, b); }),
       logic("logical_not", [](Tensor a, Tensor) { return !a; }),
       conversion("f32 to bf16", DType::bf16, false,
                  [](const Known& x) { return x.tensor.dtype() == DType::f32; }),
       conversion("16 bits to f32", DType::f32, false,
                  [](const Known& x) { return x.is_float() && x.tensor.dtype() != DType::f32; }),
       conversion("i32 to f32", DType::f32, false, [](const Known& x) { return x.is_int(); }),
       conversion("i32 to bf16", DType::bf16, false, [](const Known& x) { return x.is_int(); }),
       conversion("bool to f32", DType::f32, false, [](const Known& x) { return x.is_bool(); }),
       conversion("bool to i32", DType::i32, false, [](const Known& x) { return x.is_bool(); }),
       conversion("float to i32", DType::i32, true, [](const Known& x) { return x.is_float() && x.exact(); }),
       conversion("number to bool", DType::boolean, true,
                  [](const Known& x) { return !x.is_bool() && x.exact(); })});
  out.push_back({"isfinite", 1, false, [](RandomValues& values) {
                   auto x = values.floats();
                   if (!x) return false;
                   values.add(isfinite(x->tensor) && !isnan(x->tensor), 1, 0);
                   return true;
                 }});
  out.push_back({"dropout", 2, false, [](RandomValues& values) {
                   auto x = values.floats(1);
                   if (!x) return false;
                   values.add(dropout(x->tensor, 0.5), 2 * x->most, x->fraction);
                   return true;
                 }});
}
}  // namespace

std::vector<Move> pointwise_moves() {
  std::vector<Move> out;
  smooth_functions(out);
  kinked_functions(out);
  binary_functions(out);
  whole_functions(out);
  return out;
}

}  // namespace lockstep::sweep
