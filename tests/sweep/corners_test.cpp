// Corners of functions, and gradients of their gradients there, each by a small graph of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "compiler/autodiff/autodiff.h"
#include "compiler/reference/evaluate.h"
#include "core/functions/functions.h"
#include "core/functions/matrices/linalg.h"
#include "tests/support/tolerance.h"
#include "tests/sweep/backends.h"

namespace lockstep::sweep {
namespace {

using compiler::HostTensor;
using Tensors = std::vector<Tensor>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The outputs of a function of these inputs: of native kernels, beside those of the reference.
std::vector<HostTensor> outputs_of(const std::function<Tensors(const Tensors&)>& function,
                                   const std::vector<HostTensor>& inputs) {
  auto builder = std::make_shared<Builder>();
  Tensors given;
  for (const HostTensor& input : inputs)
    given.emplace_back(builder, builder->graph.add_input(InputKind::value, str("in", given.size()),
                                                         input.dtype, input.shape));
  for (const Tensor& made : function(given)) builder->graph.add_output(OutputKind::value, "out", made.id());
  const Graph graph =
      compiler::differentiate(std::move(builder->graph), compiler::PassContext{Mesh{}, {}, {}});
  const auto right = compiler::evaluate(graph, inputs);
  const Backend native = compiled_backend("native", compiler::Backend::native, compiler::cpu_target());
  native.prepare({graph});
  const auto out = native.run(0, inputs);
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(testing::difference(out[i], right[i]), "") << "output " << i;
  return out;
}
HostTensor floats(const Shape& shape, const std::vector<double>& values) {
  return compiler::from_values(DType::f32, shape, values);
}

// One slope fits any shape.
TEST(Corners, OneSlopeOfPreluFitsAScalar) {
  const auto out = outputs_of(
      [](const Tensors& x) {
        const Tensor y = prelu(x[0], x[1]);
        return Tensors{y, grad(y, {x[0]})[0], grad(y, {x[1]})[0]};
      },
      {floats({}, {-2}), floats({1}, {0.25})});
  EXPECT_EQ(out[0].shape, Shape{});
  EXPECT_EQ(out[0].at(0), -0.5);
  EXPECT_EQ(out[1].at(0), 0.25);
  EXPECT_EQ(out[2].shape, Shape{1});
  EXPECT_EQ(out[2].at(0), -2);
}

// A gradient of a gradient is one of erfinv, not of the steps that compute it.
TEST(Corners, ErfinvHasThreeDerivatives) {
  const std::vector<double> at{-0.9, -0.5, 0, 0.25, 0.7};
  const auto out = outputs_of(
      [](const Tensors& x) {
        Tensors made{erfinv(x[0])};
        for (int order = 0; order < 3; ++order) made.push_back(grad(made.back(), {x[0]})[0]);
        return made;
      },
      {floats({5}, at)});
  for (int64_t i = 0; i < 5; ++i) {
    // y = erfinv(x): y' = e^(y y) sqrt(pi) / 2, y'' = 2 y y'^2, y''' = (2 + 8 y y) y'^3.
    const double y = out[0].at(i), slope = std::exp(y * y) * std::sqrt(std::acos(-1.0)) / 2;
    EXPECT_NEAR(std::erf(y), at[static_cast<size_t>(i)], 1e-6);
    EXPECT_NEAR(out[1].at(i), slope, 1e-5 * slope);
    EXPECT_NEAR(out[2].at(i), 2 * y * slope * slope, 1e-5 * slope * slope);
    EXPECT_NEAR(out[3].at(i), (2 + 8 * y * y) * std::pow(slope, 3), 1e-4 * std::pow(slope, 3));
  }
}

// A gradient of prod has gradients along the zeros of its input.
TEST(Corners, ProdHasAllDerivativesAtZeros) {
  const std::vector<double> x{0, 2, 3, 0, 0, 5};  // rows of one zero and of two
  const auto out = outputs_of(
      [](const Tensors& in) {
        const Tensor y = prod(in[0], {1}), first = grad(y, {in[0]})[0];
        const Tensor second = grad(first, {in[0]}, in[1])[0];
        return Tensors{y, first, second, grad(second, {in[0]}, in[1])[0]};
      },
      {floats({2, 3}, x), floats({2, 3}, {1, 2, 4, 1, 2, 4})});
  const std::vector<std::vector<double>> right{
      {0, 0}, {6, 0, 0, 0, 0, 0}, {14, 3, 2, 10, 5, 0}, {16, 8, 4, 16, 8, 4}};
  for (size_t i = 0; i < right.size(); ++i) EXPECT_EQ(compiler::to_doubles(out[i]), right[i]) << i;
}

// The gradient of det is the cofactors, of a singular matrix, too; a rank below n - 1 has none but 0.
TEST(Corners, DetHasAGradientWhereItIsZero) {
  const auto slopes = [](const Tensors& x) {
    const Tensor y = det(x[0]);
    return Tensors{y, grad(y, {x[0]})[0]};
  };
  const auto out = outputs_of(slopes, {floats({4, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9,  // rank 2
                                                          0, 2, 0, 0, 0, 3, 0, 0, 0,  // its first pivot is 0
                                                          1, 1, 1, 1, 1, 1, 1, 1, 1,  // rank 1
                                                          2, 0, 0, 0, 3, 0, 0, 0, 4})});
  const std::vector<double> values{0, 0, 0, 24},
      right{-3, 6, -3, 6, -12, 6, -3, 6, -3, 0,  0, 0, 0, 0, 0, 6, 0, 0,
            0,  0, 0,  0, 0,   0, 0,  0, 0,  12, 0, 0, 0, 8, 0, 0, 0, 6};
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(out[0].at(static_cast<int64_t>(i)), values[i], 1e-4) << i;
  for (size_t i = 0; i < right.size(); ++i)
    EXPECT_NEAR(out[1].at(static_cast<int64_t>(i)), right[i], 1e-4) << i;
  const auto one = outputs_of(slopes, {floats({1, 1}, {0})});
  EXPECT_EQ(one[1].at(0), 1);
  const auto twice =
      outputs_of([](const Tensors& x) { return Tensors{grad(grad(det(x[0]), {x[0]})[0], {x[0]}, x[1])[0]}; },
                 {floats({2, 2}, {0, 1, 0, 0}), floats({2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(compiler::to_doubles(twice[0]), (std::vector<double>{4, -3, -2, 1}));
}

// Elements that are 0 add nothing to the gradient of a norm, nor make it NaN.
TEST(Corners, NormsHaveAGradientAtZeros) {
  for (const double p : {-kInfinity, -2.0, -0.5, 0.5, 1.0, 2.0, 3.0, kInfinity}) {
    const auto out = outputs_of(
        [p](const Tensors& x) {
          const Tensor y = norm(x[0], p, {1});
          return Tensors{y, grad(y, {x[0]})[0]};
        },
        {floats({3, 2}, {0, 0, 0, 4, 3, 3})});
    EXPECT_EQ(out[0].at(0), 0) << p;
    EXPECT_NEAR(out[0].at(1), p > 0 ? 4 : 0, 1e-5) << p;
    const double both = std::pow(2, 1 / p);  // the norm of two equal elements over one of them
    EXPECT_NEAR(out[0].at(2), 3 * both, 1e-5 * both) << p;
    const double right[] = {0, 0, 0, p > 0 ? 1.0 : 0.0, both / 2, both / 2};
    for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(out[1].at(i), right[i], 1e-5) << p << ": " << i;
  }
}

// An integer divided by itself is 1, and 0 where it is 0, whatever follows.
TEST(Corners, AnIntegerDividedByItselfIsOne) {
  for (const DType dtype : {DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64})
    for (const int64_t columns : {3, 5, 16, 20}) {
      SCOPED_TRACE(str(name(dtype), " ", columns));
      std::vector<double> x, right;
      for (int64_t i = 0; i < 7 * columns; ++i) x.push_back(static_cast<double>(i % 5));
      for (const double v : x) right.push_back(v == 0 ? 0 : 1);
      const auto out = outputs_of(
          [](const Tensors& in) {
            const Tensor one = in[0] / in[0];
            return Tensors{one, sum(one % 17.0, {1}), one % 17.0, one + one, sum(one, {1})};
          },
          {compiler::from_values(dtype, {7, columns}, x)});
      EXPECT_EQ(compiler::to_doubles(out[0]), right);
    }
}

// Views of views of several inputs multiply the loads of one element: some are stored, so that a kernel holds
// them.
TEST(Corners, ViewsOfViewsOfSeveralInputs) {
  const auto out = outputs_of(
      [](const Tensors& x) {
        Tensor y = x[0];
        for (int i = 0; i < 8; ++i) y = concat({y, flip(y, {0}), y}, 0);
        return Tensors{y * y, grad(y, {x[0]}, y)[0]};
      },
      {floats({2}, {2, 3})});
  ASSERT_EQ(out[0].shape, Shape{13122});
  EXPECT_EQ(out[0].at(0), 4);
  EXPECT_EQ(out[0].at(2), 9);
  EXPECT_EQ(compiler::to_doubles(out[1]), (std::vector<double>{13122, 19683}));
}

}  // namespace
}  // namespace lockstep::sweep
