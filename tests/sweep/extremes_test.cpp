// Quotients, remainders and numbers beside tensors at the ends of their dtypes: the reference and every
// backend, beside wide integers and C's floats.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "compiler/reference/evaluate.h"
#include "core/functions/functions.h"
#include "core/ir/parse.h"
#include "core/ir/print.h"
#include "tests/sweep/backends.h"

namespace lockstep::sweep {
namespace {

using compiler::HostTensor;
using Tensors = std::vector<Tensor>;
using Wide = __int128;

// What the reference gives, whose bits every backend has.
std::vector<HostTensor> outputs_of(const std::function<Tensors(const Tensors&)>& function,
                                   const std::vector<HostTensor>& inputs) {
  auto builder = std::make_shared<Builder>();
  Tensors given;
  for (const HostTensor& input : inputs)
    given.emplace_back(builder, builder->graph.add_input(InputKind::value, str("in", given.size()),
                                                         input.dtype, input.shape));
  for (const Tensor& made : function(given)) builder->graph.add_output(OutputKind::value, "out", made.id());
  const Graph& graph = builder->graph;
  const auto right = compiler::evaluate(graph, inputs);
  const auto read =
      compiler::evaluate(parse_graph(print(graph)), inputs);  // text carries numbers exactly, too
  for (size_t o = 0; o < right.size(); ++o) EXPECT_TRUE(compiler::same_bytes(right[o], read[o])) << o;
  for (const Backend& backend : backends()) {  // each is prepared once
    backend.prepare({graph});
    const auto out = backend.run(0, inputs);
    for (size_t o = 0; o < out.size(); ++o)
      for (int64_t i = 0; i < out[o].size(); ++i) {
        const double a = out[o].at(i), b = right[o].at(i);
        const bool same = is_float(out[o].dtype) ? (std::isnan(a) && std::isnan(b)) ||
                                                       (a == b && std::signbit(a) == std::signbit(b))
                                                 : out[o].int_at(i) == right[o].int_at(i);
        EXPECT_TRUE(same) << backend.name << " output " << o << " element " << i << ": " << a
                          << ", reference " << b;
      }
  }
  return right;
}

const DType kIntegers[] = {DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64};
bool is_signed(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }
int digits(DType dtype) { return static_cast<int>(8 * size_of(dtype)) - is_signed(dtype); }
Wide most(DType dtype) { return (Wide{1} << digits(dtype)) - 1; }
Wide least(DType dtype) { return is_signed(dtype) ? -(Wide{1} << digits(dtype)) : 0; }

// The ends, the middle, 0 and 2^53, and their neighbours.
std::vector<Wide> extremes(DType dtype, int near) {
  std::vector<Wide> out;
  for (Wide middle : {least(dtype), Wide{0}, most(dtype) / 2, most(dtype), Wide{1} << 53})
    for (int by = -near; by <= near; ++by)
      if (middle + by >= least(dtype) && middle + by <= most(dtype)) out.push_back(middle + by);
  return out;
}
// Every pair of them.
std::vector<HostTensor> pairs(DType dtype) {
  const auto all = extremes(dtype, 3);
  std::vector<int64_t> a, b;
  for (Wide x : all)
    for (Wide y : all) a.push_back(static_cast<int64_t>(x)), b.push_back(static_cast<int64_t>(y));
  const Shape shape{static_cast<int64_t>(a.size())};
  return {compiler::from_ints(dtype, shape, a), compiler::from_ints(dtype, shape, b)};
}
Wide value(const HostTensor& x, int64_t i) {
  return x.dtype == DType::u64 ? Wide{static_cast<uint64_t>(x.int_at(i))} : Wide{x.int_at(i)};
}

TEST(Extremes, IntegersDivideAsNumPyDivides) {
  for (DType dtype : kIntegers) {
    const auto in = pairs(dtype);
    const auto out = outputs_of(
        [](const Tensors& x) {
          return Tensors{floor_divide(x[0], x[1]), remainder(x[0], x[1]), x[0] / x[1]};
        },
        in);
    const HostTensor wrapped = compiler::make_tensor(dtype, {1});
    for (int64_t i = 0; i < in[0].size(); ++i) {
      const Wide a = value(in[0], i), b = value(in[1], i);
      const Wide cut = b == 0 ? 0 : a / b, left = b == 0 ? 0 : a - cut * b;
      const bool down = left != 0 && (left < 0) != (b < 0);
      const Wide right[] = {cut - down, left + (down ? b : 0), cut};
      for (size_t o = 0; o < 3; ++o) {
        HostTensor want = wrapped;
        want.set_int_at(0, static_cast<int64_t>(right[o]));
        ASSERT_EQ(out[o].int_at(i), want.int_at(0))
            << name(dtype) << " output " << o << " of " << static_cast<double>(a) << " by "
            << static_cast<double>(b);
      }
    }
  }
}

// As NumPy and PyTorch write it.
template <class T>
T floor_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T left = std::fmod(a, b);
  T quotient = (a - left) / b;
  if (left != 0 && (b < 0) != (left < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T{0}, a / b);
  const T down = std::floor(quotient);
  return quotient - down > T{0.5} ? down + 1 : down;
}

TEST(Extremes, FloatsDivideAsNumPyDivides) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> all{0,    0.1,  0.3,  0.7,   1,     3.5,      6,        7.25,     1e-3,
                          1e10, 1e30, 3e38, 1e-38, 1e-42, 16777216, 33554433, infinity, std::nan("")};
  for (size_t i = 0, n = all.size(); i < n; ++i) all.push_back(-all[i]);
  std::vector<double> a, b;
  for (double x : all)
    for (double y : all) a.push_back(x), b.push_back(y);
  const Shape shape{static_cast<int64_t>(a.size())};
  for (DType dtype : {DType::f32, DType::f64}) {
    const std::vector<HostTensor> in{compiler::from_values(dtype, shape, a),
                                     compiler::from_values(dtype, shape, b)};
    const auto out = outputs_of(
        [](const Tensors& x) { return Tensors{floor_divide(x[0], x[1]), remainder(x[0], x[1])}; }, in);
    for (int64_t i = 0; i < in[0].size(); ++i) {
      const double x = in[0].at(i), y = in[1].at(i), got = out[0].at(i);
      const double want = dtype == DType::f32 ? floor_quotient(static_cast<float>(x), static_cast<float>(y))
                                              : floor_quotient(x, y);
      ASSERT_TRUE((std::isnan(got) && std::isnan(want)) ||
                  (got == want && std::signbit(got) == std::signbit(want)))
          << name(dtype) << ": " << x << " // " << y << " is " << got << ", not " << want;
    }
  }
  const std::vector<HostTensor> in{compiler::from_values(DType::f32, {3}, {1, 6, -3.5}),
                                   compiler::from_values(DType::f32, {3}, {0.1, 0.1, infinity})};
  const auto out = outputs_of([](const Tensors& x) { return Tensors{floor_divide(x[0], x[1])}; }, in);
  EXPECT_EQ(compiler::to_doubles(out[0]), (std::vector<double>{9, 59, -1}));
}

// What an integer beside a tensor, in an attribute and in a kernel is, at every extreme.
TEST(Extremes, NumbersBesideIntegersAreExact) {
  for (DType dtype : kIntegers) {
    const auto all = extremes(dtype, 1);
    const std::vector<HostTensor> in{compiler::from_ints(dtype, {4}, {0, 0, 0, 0})};
    const auto out = outputs_of(
        [&](const Tensors& x) {
          Tensors made;
          for (Wide v : all) {
            const Number n = v < 0 ? Number(static_cast<int64_t>(v)) : Number(static_cast<uint64_t>(v));
            made.insert(made.end(),
                        {x[0] + n, full(x[0], {3}, n, dtype), clamp(x[0], n, n),
                         masked_fill(x[0], x[0] == 0, n), slice(pad(x[0], {1}, {0}, n), 0, 0, 1),
                         where(x[0] + n == n, full_like(x[0], n), x[0]), constant(x[0], {n}, dtype)});
          }
          return made;
        },
        in);
    for (size_t o = 0; o < out.size(); ++o)
      for (int64_t i = 0; i < out[o].size(); ++i)
        ASSERT_EQ(out[o].int_at(i),
                  compiler::from_ints(dtype, {1}, {static_cast<int64_t>(all[o / 7])}).int_at(0))
            << name(dtype) << " output " << o % 7 << " of number " << o / 7;
  }
}

}  // namespace
}  // namespace lockstep::sweep
