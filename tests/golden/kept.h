// Tensors that are kept as a formula, some of their elements and two inner products (the make.py beside
// them).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "compiler/reference/host_tensor.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace lockstep::golden {

inline double formula(int64_t i, int64_t seed) {
  return static_cast<double>((i * 37 + i / 11 * 5 + seed * 17) % 101 - 50) / 64;
}
inline compiler::HostTensor given(DType dtype, const Shape& shape, int64_t seed) {
  compiler::HostTensor made = compiler::make_tensor(dtype, shape);
  for (int64_t i = 0; i < made.size(); ++i) made.set(i, formula(i, seed));
  return made;
}

// Largest difference: `tolerance` times the largest element.
inline void check(const Json& right, const compiler::HostTensor& made, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(made.shape, right.at("shape").get<Shape>()) << what;
  auto near = [&](double a, double b, double size, const std::string& place) {
    EXPECT_LE(std::abs(a - b), tolerance * size)
        << what << ", " << place << ": " << a << ", PyTorch has " << b;
  };
  double largest = 1e-3;
  for (int64_t i = 0; i < made.size(); ++i) largest = std::max(largest, std::abs(made.at(i)));
  const int64_t n = static_cast<int64_t>(right.at("first").size());
  for (int64_t i = 0; i < n; ++i) {
    near(made.at(i), right.at("first")[static_cast<size_t>(i)], largest, str("element ", i));
    near(made.at(made.size() - n + i), right.at("last")[static_cast<size_t>(i)], largest,
         str("element ", made.size() - n + i));
  }
  for (int64_t seed : {91, 92}) {
    double product = 0;
    for (int64_t i = 0; i < made.size(); ++i) product += made.at(i) * formula(i, seed);
    near(product, right.at("products")[static_cast<size_t>(seed - 91)],
         largest * std::sqrt(static_cast<double>(made.size())), str("product ", seed));
  }
}

}  // namespace lockstep::golden
