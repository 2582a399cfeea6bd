// Products of packed bf16 panels, from either side as it lies and transposed, on each unit of this processor:
// they agree with sums in double, and what fills panels up is 0.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "compiler/codegen/library/panels.h"
#include "core/types/dtype.h"

namespace lockstep::compiler::panels {
namespace {

std::vector<float> uniform(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> from(-1, 1);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = from(random);
  return out;
}

#if defined(__x86_64__)
TEST(Panels, Bf16ProductsOnEachUnit) {
  if (best_unit() == Unit::none) GTEST_SKIP() << "this processor does not multiply bf16";
  for (Unit unit : {Unit::avx512, Unit::amx}) {
    if (unit > best_unit()) continue;
    const UnitSession session(unit);
    const int64_t m = 40, n = 70, k = 100;
    const std::vector<float> a = uniform(m * k, 5), b = uniform(k * n, 6);
    std::vector<bf16> left, right, right_turned(static_cast<size_t>(k * n)),
        left_turned(static_cast<size_t>(m * k));
    for (float x : a) left.emplace_back(x);
    for (float x : b) right.emplace_back(x);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j)
        right_turned[static_cast<size_t>(j * k + i)] = right[static_cast<size_t>(i * n + j)];
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j)
        left_turned[static_cast<size_t>(j * m + i)] = left[static_cast<size_t>(i * k + j)];
    auto rows = [](const std::vector<bf16>& from, int64_t count, int64_t width) {
      return MatrixRows{reinterpret_cast<const uint16_t*>(from.data()), width, count, width};
    };
    for (bool turned : {false, true}) {
      const int64_t deep = filled(k), across = filled(n);
      std::vector<uint16_t> left_panel(static_cast<size_t>(filled(m) * deep)),
          right_panel(static_cast<size_t>(deep * across));
      if (turned) {
        fill_left_transposed(rows(left_turned, k, m), left_panel.data(), deep);
        fill_right_transposed(rows(right_turned, n, k), right_panel.data());
      } else {
        fill_left(rows(left, m, k), left_panel.data(), deep);
        fill_right(rows(right, k, n), right_panel.data());
      }
      std::vector<float> sums(static_cast<size_t>(filled(m) * across), 1.0f);
      for (bool add : {false, true})
        multiply(unit, filled(m), across, deep, {left_panel.data(), deep}, {right_panel.data(), deep}, add,
                 {sums.data(), across});
      for (int64_t i = 0; i < filled(m); ++i)
        for (int64_t j = 0; j < across; ++j) {
          double want = 0;
          for (int64_t d = 0; i < m && j < n && d < k; ++d)
            want += 2.0 * static_cast<double>(static_cast<float>(left[static_cast<size_t>(i * k + d)])) *
                    static_cast<double>(static_cast<float>(right[static_cast<size_t>(d * n + j)]));
          ASSERT_NEAR(sums[static_cast<size_t>(i * across + j)], want, 1e-4)
              << name(unit) << (turned ? " turned " : " ") << i << ", " << j;
        }
    }
  }
}
#endif

}  // namespace
}  // namespace lockstep::compiler::panels
