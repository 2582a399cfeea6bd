// float8: conversions against the list of all its numbers, and quantize and scaled_mm on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "compiler/codegen/library/library.h"
#include "core/device/device.h"
#include "core/types/dtype.h"

namespace lockstep {
namespace {

// All finite numbers of a format that are not negative, ascending: their codes ascend, too.
template <class F>
std::vector<float> numbers() {
  std::vector<float> out;
  for (int code = 0; code < 128; ++code)
    if (const float value = F::decode(static_cast<uint8_t>(code)); std::isfinite(value)) out.push_back(value);
  return out;
}
// The nearest of them, of two the even code; the last for all beyond it.
uint8_t nearest(const std::vector<float>& numbers, float magnitude) {
  size_t best = 0;
  for (size_t i = 1; i < numbers.size(); ++i) {
    const double there = std::fabs(static_cast<double>(numbers[i]) - magnitude),
                 here = std::fabs(static_cast<double>(numbers[best]) - magnitude);
    if (there < here || (there == here && i % 2 == 0)) best = i;
  }
  return static_cast<uint8_t>(best);
}

template <class F>
void expect_conversions(size_t count, float least, float most) {
  const std::vector<float> all = numbers<F>();
  ASSERT_EQ(all.size(), count);
  EXPECT_EQ(all[1], least);
  EXPECT_EQ(all.back(), most);
  EXPECT_EQ(F::kMost, most);
  for (size_t code = 0; code < all.size(); ++code) {
    EXPECT_EQ(F(all[code]).bits, code) << all[code];
    EXPECT_EQ(F(-all[code]).bits, code | 0x80) << all[code];
    if (code + 1 == all.size()) continue;
    const float middle = (all[code] + all[code + 1]) / 2;  // exact: a tie goes to the even code
    EXPECT_EQ(F(middle).bits, code + code % 2) << middle;
    EXPECT_EQ(F(std::nextafter(middle, 0.0f)).bits, code) << middle;
    EXPECT_EQ(F(std::nextafter(middle, most)).bits, code + 1) << middle;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                                   static_cast<int>(random() % 40) - 22);
    EXPECT_EQ(F(value).bits, nearest(all, std::fabs(value)) | (std::signbit(value) ? 0x80 : 0)) << value;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(F(infinity)), most);
  EXPECT_EQ(static_cast<float>(F(-infinity)), -most);
  EXPECT_EQ(static_cast<float>(F(std::numeric_limits<float>::max())), most);
  EXPECT_TRUE(std::isnan(static_cast<float>(F(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Float8, E4m3IsNearest) { expect_conversions<f8_e4m3>(127, 0x1p-9f, 448); }
TEST(Float8, E5m2IsNearest) { expect_conversions<f8_e5m2>(124, 0x1p-16f, 57344); }

TEST(Float8, IsADtype) {
  for (DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    EXPECT_EQ(size_of(dtype), 1u);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    EXPECT_EQ(parse_safetensors_dtype(safetensors_name(dtype)), dtype);
    EXPECT_FALSE(is_float(dtype));
    EXPECT_FALSE(is_integer(dtype));
    std::byte held{};
    set_double(dtype, &held, 0, -1.5);
    EXPECT_EQ(get_double(dtype, &held, 0), -1.5);
  }
}

// What quantize makes of [rows, columns].
struct Made {
  std::vector<uint8_t> rows, turned;
  float inverse = 0;
};
Made quantized(const std::vector<float>& x, int64_t rows, int64_t columns, DType dtype, float most,
               int threads) {
  Node node;
  node.op = ops::quantize;
  node.attrs = {{"dtype", dtype}};
  const auto call = compiler::make_library_call(
      node, {compiler::dense_operand(DType::f32, {rows, columns}), compiler::dense_operand(DType::f32, {})},
      {compiler::dense_operand(dtype, {rows, columns}), compiler::dense_operand(dtype, {columns, rows}),
       compiler::dense_operand(DType::f32, {})});
  Made out{std::vector<uint8_t>(x.size()), std::vector<uint8_t>(x.size()), 0};
  void* args[] = {const_cast<float*>(x.data()), &most, out.rows.data(), out.turned.data(), &out.inverse};
  call->enqueue(args, nullptr, *cpu_device().make_stream(), threads);
  return out;
}
std::vector<float> random_values(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> out(static_cast<size_t>(count));
  for (float& value : out) value = draw(random);
  return out;
}

TEST(Float8, QuantizeWritesBothLayouts) {
  constexpr int64_t rows = 48, columns = 80;
  const std::vector<float> x = random_values(rows * columns, 3);
  float most = 0;
  for (float value : x) most = std::max(most, std::fabs(value));
  for (int threads : {1, 2}) {
    const Made made = quantized(x, rows, columns, DType::f8_e4m3, most, threads);
    EXPECT_EQ(made.inverse, most / 448);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const uint8_t want = f8_e4m3(x[r * columns + c] * (448 / most)).bits;
        EXPECT_EQ(made.rows[r * columns + c], want);
        EXPECT_EQ(made.turned[c * rows + r], want);
      }
  }
}
// Each row by its own scale, and turned each column by its own; the first row and column are zeros.
TEST(Float8, QuantizeRowwiseHasAScaleForEachRowAndColumn) {
  constexpr int64_t rows = 48, columns = 80;
  std::vector<float> x = random_values(rows * columns, 5);
  for (int64_t i = 0; i < rows; ++i) x[i * columns] = 0;
  for (int64_t i = 0; i < columns; ++i) x[i] = 0;
  for (int64_t i = 0; i < columns; ++i) x[columns + i] *= 1e-6f;  // lost beside the others, not by itself
  std::vector<float> of_row(rows), of_column(columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const float size = std::fabs(x[r * columns + c]);
      of_row[r] = std::max(of_row[r], size), of_column[c] = std::max(of_column[c], size);
    }
  Node node;
  node.op = ops::quantize;
  node.attrs = {{"dtype", DType::f8_e4m3}};
  auto dense = [](DType dtype, Shape shape) { return compiler::dense_operand(dtype, std::move(shape)); };
  const auto call = compiler::make_library_call(
      node, {dense(DType::f32, {rows, columns}), dense(DType::f32, {rows}), dense(DType::f32, {columns})},
      {dense(DType::f8_e4m3, {rows, columns}), dense(DType::f8_e4m3, {columns, rows}),
       dense(DType::f32, {rows}), dense(DType::f32, {columns})});
  for (int threads : {1, 2}) {
    std::vector<uint8_t> out(x.size()), turned(x.size());
    std::vector<float> inverse(rows), inverse_turned(columns);
    void* args[] = {x.data(),      of_row.data(),  of_column.data(),     out.data(),
                    turned.data(), inverse.data(), inverse_turned.data()};
    call->enqueue(args, nullptr, *cpu_device().make_stream(), threads);
    auto scale = [](float most) { return 448 / std::max(most, 1e-12f); };
    for (int64_t r = 0; r < rows; ++r) EXPECT_EQ(inverse[r], std::max(of_row[r], 1e-12f) / 448) << r;
    for (int64_t c = 0; c < columns; ++c)
      EXPECT_EQ(inverse_turned[c], std::max(of_column[c], 1e-12f) / 448) << c;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const float value = x[r * columns + c];
        EXPECT_EQ(out[r * columns + c], f8_e4m3(value * scale(of_row[r])).bits);
        EXPECT_EQ(turned[c * rows + r], f8_e4m3(value * scale(of_column[c])).bits);
      }
    EXPECT_NEAR(f8_e4m3::decode(out[columns + 1]) * inverse[1], x[columns + 1],
                std::fabs(x[columns + 1]) / 16);
  }
}
// Rows that are cast part by part by the largest magnitude of all, and turned once they are together.
TEST(Float8, CastRowsThatAreTurnedAreThoseOfQuantize) {
  constexpr int64_t rows = 48, columns = 80, parts = 4;
  const std::vector<float> x = random_values(rows * columns, 9);
  float most = 0;
  for (float value : x) most = std::max(most, std::fabs(value));
  auto dense = [](DType dtype, Shape shape) { return compiler::dense_operand(dtype, std::move(shape)); };
  for (DType to : {DType::f8_e4m3, DType::f8_e5m2})
    for (int threads : {1, 2}) {
      Node cast, turn;
      cast.op = turn.op = ops::quantize;
      cast.attrs = {{"dtype", to}, {"half", std::string("cast")}};
      turn.attrs = {{"dtype", to}, {"half", std::string("transpose")}};
      const auto of_part = compiler::make_library_call(
          cast, {dense(DType::f32, {rows / parts, columns}), dense(DType::f32, {})},
          {dense(to, {rows / parts, columns})});
      const auto of_all =
          compiler::make_library_call(turn, {dense(to, {rows, columns}), dense(DType::f32, {})},
                                      {dense(to, {columns, rows}), dense(DType::f32, {})});
      std::vector<uint8_t> out(x.size()), turned(x.size());
      float inverse = 0;
      for (int64_t at = 0; at < rows * columns; at += rows / parts * columns) {
        void* args[] = {const_cast<float*>(&x[at]), &most, &out[at]};
        of_part->enqueue(args, nullptr, *cpu_device().make_stream(), threads);
      }
      void* args[] = {out.data(), &most, turned.data(), &inverse};
      of_all->enqueue(args, nullptr, *cpu_device().make_stream(), threads);
      const Made want = quantized(x, rows, columns, to, most, threads);
      EXPECT_EQ(out, want.rows);
      EXPECT_EQ(turned, want.turned);
      EXPECT_EQ(inverse, want.inverse);
    }
}
TEST(Float8, ZerosHaveAScale) {
  const Made made = quantized(std::vector<float>(256), 16, 16, DType::f8_e5m2, 0, 1);
  EXPECT_TRUE(std::isfinite(made.inverse));
  EXPECT_EQ(made.rows, std::vector<uint8_t>(256));
}
TEST(Float8, NanGoesThrough) {
  std::vector<float> x(256, 1);
  x[77] = std::numeric_limits<float>::quiet_NaN();
  const Made made = quantized(x, 16, 16, DType::f8_e4m3, x[77], 1);
  EXPECT_TRUE(std::isnan(made.inverse));
  EXPECT_TRUE(std::isnan(f8_e4m3::decode(made.rows[0])));
}

}  // namespace
}  // namespace lockstep
