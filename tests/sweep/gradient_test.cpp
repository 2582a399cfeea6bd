// Law three: a row's gradient equals a finite difference in one random direction, in f64; and so does the
// gradient of the gradient.
#include <gtest/gtest.h>

#include <iostream>

#include "compiler/laws/laws.h"
#include "tests/sweep/cases.h"

namespace lockstep::sweep {
namespace {

TEST(Sweep, GradientEqualsFiniteDifference) {
  size_t checked = 0;
  for_each_case([&](const Case& made) { checked += holds(made, gradient_equals_difference(made)); });
  std::cout << "gradients checked: " << checked << "\n";
  EXPECT_GE(checked, 100u);
}

TEST(Sweep, SecondGradientEqualsFiniteDifference) {
  size_t checked = 0;
  for_each_case([&](const Case& made) { checked += holds(made, second_gradient_equals_difference(made)); });
  std::cout << "second gradients checked: " << checked << "\n";
  EXPECT_GE(checked, 100u);
}

// A product is a polynomial: its gradient is right where factors are zero, one or several of them.
TEST(Sweep, GradientOfProductsWithZeros) {
  const Op& prod = op_row("prod");
  for (size_t i = 0; i < prod.samples.size(); ++i) {
    Sample sample = prod.samples[i];
    if (!is_float(sample.in[0].dtype)) continue;
    sample.lo = -2, sample.hi = 2;
    const Case made = make_case(prod, i, sample);
    EXPECT_TRUE(holds(made, gradient_equals_difference(made, true)));
  }
}

}  // namespace
}  // namespace lockstep::sweep
