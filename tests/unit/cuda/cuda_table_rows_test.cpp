// The kernels of sparse tables without a GPU: they compile, and on the host they have the CPU's bits, threads
// in either order.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "compiler/codegen/cuda/source/nvrtc.h"
#include "compiler/codegen/cuda/sums/table_rows.h"
#include "compiler/codegen/sums/cpu_reductions.h"
#include "core/types/dtype.h"
#include "tests/unit/cuda/cuda_on_host.h"

namespace lockstep::compiler::cuda {
namespace {

const std::vector<std::string> kKernels{"digits",    "scan",       "scatter",      "heads",
                                        "number",    "sum_rows_1", "sum_rows_2",   "sum_rows_4",
                                        "fill_rows", "put_rows",   "sort_in_block"};

TEST(CudaTableRowsText, KernelsCompile) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  for (const char* target : {"sm_80", "sm_90"})
    EXPECT_GT(compile_cubin(table_rows_source(), target).size(), 1000u);
}

struct Made {
  std::vector<int32_t> ids;
  std::vector<float> rows;
  std::vector<double> squares;
  // Bits, so that -0 and NaN count.
  bool operator==(const Made& o) const {
    auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    return same(ids, o.ids) && same(rows, o.rows) && same(squares, o.squares);
  }
  explicit Made(int64_t count, int64_t width)
      : ids(count, -77), rows(count * width, -77.25f), squares(count, -77.25) {}
};

class CudaTableRows : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    kernels_ = std::make_unique<test::CudaOnHost>(table_rows_source(), kKernels);
  }
  static void TearDownTestSuite() { kernels_.reset(); }
  static RowLaunch launch(bool backward) {
    return [backward](const char* kernel, unsigned blocks, unsigned threads, void** args) {
      kernels_->launch(kernel, blocks, threads, args, backward);
    };
  }
  static Reductions::Rows rows_of(const std::vector<int32_t>& ids, const std::vector<float>& rows,
                                  int64_t width, int64_t table_rows, Made& to) {
    return {.ids = ids.data(),
            .rows = rows.data(),
            .count = static_cast<int64_t>(ids.size()),
            .width = width,
            .table_rows = table_rows,
            .out_ids = to.ids.data(),
            .out_rows = to.rows.data(),
            .squares = to.squares.data()};
  }
  Made on_host(const std::vector<int32_t>& ids, const std::vector<float>& rows, int64_t width,
               int64_t table_rows, bool backward) {
    const auto count = static_cast<int64_t>(ids.size());
    Made made(count, width);
    std::vector<std::byte> scratch(table_row_scratch(count), std::byte{0xee});
    sum_table_rows(rows_of(ids, rows, width, table_rows, made), scratch.data(), &stray, launch(backward));
    return made;
  }
  void expect_the_cpus_bits(const std::vector<int32_t>& ids, int64_t width, int64_t table_rows) {
    const auto count = static_cast<int64_t>(ids.size());
    const std::vector<float> rows = random(count * width);
    Made want(count, width);
    auto stream = inline_stream();
    cpu_->sum_rows(rows_of(ids, rows, width, table_rows, want), *stream);
    for (bool backward : {false, true})
      EXPECT_EQ(on_host(ids, rows, width, table_rows, backward), want)
          << count << " ids of " << table_rows << " x " << width << (backward ? ", backward" : "");
    EXPECT_EQ(stray.number, 0);
  }
  std::vector<float> random(int64_t count) {
    std::vector<float> values(count);
    std::normal_distribution<float> normal;
    for (float& v : values)
      v = rng_() % 50 == 0 ? -0.0f : std::ldexp(normal(rng_), static_cast<int>(rng_() % 40) - 20);
    return values;
  }
  // `hot` of 100 ids are one and the same.
  std::vector<int32_t> some(int64_t count, int64_t table_rows, unsigned hot) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids)
      id = rng_() % 100 < hot ? static_cast<int32_t>(table_rows / 2)
                              : static_cast<int32_t>(rng_() % table_rows);
    return ids;
  }

  inline static std::unique_ptr<test::CudaOnHost> kernels_;
  std::unique_ptr<Reductions> cpu_ = make_cpu_reductions(1);
  std::mt19937 rng_{11};
  StrayId stray{};
};

TEST_F(CudaTableRows, RowsOfEqualIdsHaveTheCpusBits) {
  expect_the_cpus_bits({0}, 1, 1);
  expect_the_cpus_bits({4, 4, 4}, 3, 5);
  expect_the_cpus_bits({254, 0, 255, 254, 0}, 16, 256);  // 256 is the key of ids outside: a second pass
  for (int64_t width : {1, 5, 16, 17, 32, 33, 64, 100}) {
    expect_the_cpus_bits(some(70, 9, 20), width, 9);
    expect_the_cpus_bits(some(333, 70000, 30), width, 70000);
  }
  expect_the_cpus_bits(some(40, 10, 50), 2048, 10);
  expect_the_cpus_bits(some(20, 10, 50), 2049, 10);
  expect_the_cpus_bits(some(12, 10, 50), 5000, 10);
  expect_the_cpus_bits(some(1500, INT32_MAX - 1, 10), 4, INT32_MAX - 1);
  expect_the_cpus_bits(some(1100, 300, 100), 2, 300);
  expect_the_cpus_bits(some(3000, 5000, 3), 2, 5000);
}
TEST_F(CudaTableRows, MoreIdsThanABlockSortsHaveTheCpusBits) {
  expect_the_cpus_bits(some(kOneBlockIds + 1, 100000, 1), 1, 100000);
  expect_the_cpus_bits(some(kOneBlockIds + 3000, 200, 50), 2, 200);
}

TEST_F(CudaTableRows, AStrayIdIsToldAndNoRowIsOne) {
  for (int64_t count : {int64_t{40}, kOneBlockIds + 100})
    for (int32_t strange : {-1, INT32_MIN, 50, INT32_MAX}) {
      std::vector<int32_t> ids = some(count, 50, 10);
      ids[17] = strange, ids[30] = 51;
      const std::vector<float> rows = random(count * 3);
      stray = {};
      const Made made = on_host(ids, rows, 3, 50, false);
      EXPECT_EQ(stray.number, 18) << strange;
      EXPECT_EQ(stray.id, strange);
      EXPECT_EQ(stray.rows, 50);
      for (int64_t k = 0; k < count; ++k) {
        ASSERT_EQ(made.ids[k], -1);
        ASSERT_TRUE(std::isnan(made.squares[k]));
        ASSERT_EQ(made.rows[3 * k], 0);
      }
      ids[5] = 60;  // what was told first stays until it is read
      on_host(ids, rows, 3, 50, false);
      EXPECT_EQ(stray.number, 18);
    }
}

TEST_F(CudaTableRows, RowsArePutWhereNoGateIsClosed) {
  constexpr int64_t kTable = 30, kWidth = 21;
  const std::vector<int32_t> ids{0, 3, 3, 7, 29, 29, 29};
  const auto count = static_cast<int64_t>(ids.size());
  const std::vector<float> rows = random(count * kWidth), before = random(kTable * kWidth);
  const float limit = 2, inf = INFINITY;
  auto put = [&](std::vector<float>& table, const std::vector<int32_t>& at,
                 std::vector<Reductions::Placed::Gate> gates) {
    return Reductions::Placed{.table = table.data(),
                              .ids = at.data(),
                              .rows = rows.data(),
                              .count = static_cast<int64_t>(at.size()),
                              .width = kWidth,
                              .table_rows = kTable,
                              .gates = std::move(gates)};
  };
  std::vector<float> want = before, got = before;
  auto stream = inline_stream();
  cpu_->put_rows(put(want, ids, {}), *stream);
  put_table_rows(put(got, ids, {}), launch(false));
  EXPECT_EQ(got, want);
  EXPECT_NE(got, before);
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (double value :
         std::vector<double>{0.0, 1.5, 2.0, -2.0, 2.015625, -3.0, 6e-8, 65504.0, HUGE_VAL, -HUGE_VAL, NAN}) {
      std::byte word[8] = {};
      set_double(dtype, word, 0, value);
      const float open = 0;
      want = got = before;
      const std::vector<Reductions::Placed::Gate> gates{{&open, DType::f32, &limit}, {word, dtype, &limit}};
      cpu_->put_rows(put(want, ids, gates), *stream);
      put_table_rows(put(got, ids, gates), launch(true));
      EXPECT_EQ(got, want) << value << " as " << name(dtype);
      const double gate = get_double(dtype, word, 0);
      EXPECT_EQ(got == before, !(std::isfinite(gate) && gate <= 2)) << value << " as " << name(dtype);
      want = got = before;
      const std::vector<Reductions::Placed::Gate> endless{{word, dtype, &inf}};
      cpu_->put_rows(put(want, ids, endless), *stream);
      put_table_rows(put(got, ids, endless), launch(true));
      EXPECT_EQ(got, want) << value << " as " << name(dtype) << ", without a limit";
    }
  got = before;
  put_table_rows(put(got, {-1, -1, kTable, INT32_MAX, INT32_MIN}, {}), launch(false));
  EXPECT_EQ(got, before);
}

}  // namespace
}  // namespace lockstep::compiler::cuda
