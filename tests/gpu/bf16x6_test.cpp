// Products of f32 as six of bf16 on Hopper against sums in double, over odd shapes, cuts and numbers.
#include <cmath>
#include <limits>

#include "compiler/codegen/cuda/matmul/gemm_bf16x6.h"
#include "core/base/error.h"
#include "tests/gpu/library_case.h"

namespace lockstep::compiler::cuda {
namespace {

constexpr double kEach = 0x1p-20;   // of the sum of |a b|: what is allowed of cuBLASLt's f32 products
constexpr double kAll = 4e-7;       // of all elements together; cuBLASLt's f32 products have up to 1.1e-6
constexpr int64_t kChecked = 6000;  // elements of a product

class Bf16x6 : public LibraryCase {
 protected:
  void SetUp() override {
    LibraryCase::SetUp();
    if (IsSkipped()) return;
    const std::string why = unfit_for_bf16x6(shape(1, 1, 1), device_->properties());
    if (!why.empty()) GTEST_SKIP() << why;
  }
  static GemmOptions shape(int64_t m, int64_t n, int64_t k, bool ta = false, bool tb = false) {
    return {.m = m, .n = n, .k = k, .ta = ta, .tb = tb, .lda = ta ? m : k, .ldb = tb ? k : n, .ldd = n};
  }
  static int64_t extent(int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride) {
    return (batch - 1) * stride + (rows - 1) * ld + columns;
  }
  Array operand(const GemmOptions& o, bool a, double scale = 1) {
    return a ? random(DType::f32, extent(o.ta ? o.k : o.m, o.ta ? o.m : o.k, o.lda, o.batch, o.stride_a),
                      scale)
             : random(DType::f32, extent(o.tb ? o.n : o.k, o.tb ? o.k : o.n, o.ldb, o.batch, o.stride_b),
                      scale);
  }
  // The product, run twice over poisoned memory: equal bits.
  Array multiply(const GemmOptions& o, const Array& a, const Array& b, const Array* bias,
                 int64_t most_parts = kBf16x6Parts) {
    auto gemm = make_bf16x6(*device_, o, "", most_parts);
    SCOPED_TRACE(gemm->algorithm());
    std::vector<Array> out;
    for (int pass = 0; pass < 2; ++pass) {
      out.push_back(poisoned(DType::f32, extent(o.m, o.n, o.ldd, o.batch, o.stride_d)));
      Array workspace = poisoned(DType::u8, static_cast<int64_t>(gemm->workspace()));
      GemmArgs args;
      args.a = a.device.data(), args.b = b.device.data(), args.d = out.back().device.data();
      if (bias) args.bias = bias->device.data();
      gemm->enqueue(args, workspace.device.data(), *stream_);
      stream_->synchronize();
      download(out.back());
    }
    EXPECT_TRUE(same_bits(out[0], out[1])) << "other bits when repeated";
    return std::move(out[0]);
  }
  void expect_right(const GemmOptions& o, const Array& a, const Array& b, const Array* bias, const Array& d) {
    SCOPED_TRACE(text(o));
    const int64_t total = o.batch * o.m * o.n, every = std::max<int64_t>(1, total / kChecked) | 1;
    double errors = 0, squares = 0;
    int wrong = 0;
    for (int64_t i = 0; i < total && wrong < 3; i += every) {
      const int64_t n = i % o.n, m = i / o.n % o.m, batch = i / o.n / o.m;
      double sum = bias ? bias->at(n) : 0, size = std::fabs(sum);
      for (int64_t k = 0; k < o.k; ++k) {
        const double term = a.at(batch * o.stride_a + (o.ta ? k * o.lda + m : m * o.lda + k)) *
                            b.at(batch * o.stride_b + (o.tb ? n * o.ldb + k : k * o.ldb + n));
        sum += term, size += std::fabs(term);
      }
      const double error = d.at(batch * o.stride_d + m * o.ldd + n) - sum;
      errors += error * error, squares += sum * sum;
      if (std::fabs(error) <= kEach * size) continue;
      ADD_FAILURE() << "element " << m << "," << n << " of " << batch << " is " << sum + error
                    << ", right is " << sum;
      ++wrong;
    }
    EXPECT_LE(std::sqrt(errors), kAll * std::sqrt(squares));
  }
  void expect_right(const GemmOptions& o, int64_t most_parts = kBf16x6Parts) {
    const Array a = operand(o, true), b = operand(o, false), bias = random(DType::f32, o.n);
    const Array* added = o.epilogue == Epilogue::bias ? &bias : nullptr;
    expect_right(o, a, b, added, multiply(o, a, b, added, most_parts));
  }
};

TEST_F(Bf16x6, OddShapesInEveryOrder) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                         {129, 1, 65},
                         {1, 130, 63},
                         {128, 128, 64},
                         {200, 136, 72},
                         {333, 517, 1001},
                         {640, 257, 2048},
                         {96, 80, 9999}})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) expect_right(shape(m, n, k, ta, tb));
}

TEST_F(Bf16x6, BatchesStridesAndBias) {
  for (bool ta : {false, true})
    for (int64_t gap : {0, 1, 4}) {  // between rows and batches
      GemmOptions o = shape(150, 70, 90, ta, !ta);
      o.lda += gap, o.ldb += gap, o.ldd += gap, o.batch = 3, o.epilogue = Epilogue::bias;
      o.stride_a = (ta ? o.k : o.m) * o.lda + gap, o.stride_b = (ta ? o.k : o.n) * o.ldb + gap;
      o.stride_d = o.m * o.ldd + gap;
      expect_right(o);
      expect_right(o, 3 * 6 * 96 * 128);  // cut
      o.stride_b = 0;                     // one B for all
      expect_right(o);
    }
}

// Long sums in pieces, of batches and rows that are not dense.
TEST_F(Bf16x6, PiecesOfStridesAndBatches) {
  for (bool ta : {false, true}) {
    GemmOptions o = shape(150, 70, 6000, ta, !ta);
    o.ldd += 3, o.batch = 2, o.epilogue = Epilogue::bias;
    o.stride_a = o.m * o.k, o.stride_b = o.k * o.n, o.stride_d = o.m * o.ldd + 5;
    expect_right(o);
    expect_right(o, 2 * 6 * 6000 * 128);
  }
  GemmOptions short_sum = shape(200, 1000, 64);  // cut along n, its sums whole
  short_sum.epilogue = Epilogue::bias;
  expect_right(short_sum, 6 * 64 * 256);
}

// Piece by piece of the larger operand, and long sums in pieces: m and n that are cut, with ends that are not
// whole.
TEST_F(Bf16x6, CutsAndPieces) {
  for (bool turned : {false, true}) {
    expect_right(shape(1000, 200, 300, turned, turned), 6 * 304 * 256);
    expect_right(shape(200, 1000, 300, turned, turned), 6 * 304 * 256);
    GemmOptions o = shape(900, 130, 5000, turned, !turned);
    o.epilogue = Epilogue::bias;
    expect_right(o, 6 * 5000 * 300);
    std::swap(o.m, o.n), o.lda = turned ? o.m : o.k, o.ldb = turned ? o.n : o.k, o.ldd = o.n;
    expect_right(o, 6 * 5000 * 300);
  }
  const GemmOptions o = shape(1000, 200, 300);
  const Array a = operand(o, true), b = operand(o, false);
  EXPECT_TRUE(same_bits(multiply(o, a, b, nullptr, 6 * 304 * 256), multiply(o, a, b, nullptr)));
}

TEST_F(Bf16x6, OperandsThatLieAnywhere) {
  const GemmOptions o = shape(140, 136, 72);
  Array a = operand(o, true), b = operand(o, false);
  const Array d = multiply(o, a, b, nullptr);
  GemmOptions shifted = o;  // begins a number later, 4 bytes off
  Array one = poisoned(DType::f32, a.size() + 1);
  std::memcpy(one.host.data() + 4, a.host.data(), a.host.bytes());
  upload(one);
  auto gemm = make_bf16x6(*device_, shifted, "");
  Array out = poisoned(DType::f32, o.m * o.n + 1),
        workspace = poisoned(DType::u8, static_cast<int64_t>(gemm->workspace()));
  GemmArgs args;
  args.a = one.device.data() + 4, args.b = b.device.data(), args.d = out.device.data() + 4;
  gemm->enqueue(args, workspace.device.data(), *stream_);
  stream_->synchronize();
  download(out);
  EXPECT_EQ(std::memcmp(out.host.data() + 4, d.host.data(), d.host.bytes()), 0);
}

// Numbers from all over f32's range; what is not finite is not, and nothing beside it is touched.
TEST_F(Bf16x6, NumbersOfEverySize) {
  const GemmOptions o = shape(130, 64, 64);
  Array a = operand(o, true), b = operand(o, false);
  auto* x = a.host.as<float>();
  for (int64_t i = 0; i < a.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 200) - 100);
  upload(a);
  expect_right(o, a, b, nullptr, multiply(o, a, b, nullptr));

  for (int64_t i = 0; i < a.size(); ++i) x[i] = 0;
  constexpr float kMost = std::numeric_limits<float>::max(), kInf = std::numeric_limits<float>::infinity();
  const float rows[] = {kMost, -kMost, kInf, -kInf, std::nanf(""), 0x1p-126f, 0x1p-149f, 1 + 0x1p-23f};
  for (int64_t i = 0; i < 8; ++i) x[i * o.k + 5] = rows[i];
  upload(a);
  b.host.as<float>()[5 * o.n + 7] = 0.5f;
  upload(b);
  const Array d = multiply(o, a, b, nullptr);
  auto at = [&](int64_t row) { return static_cast<float>(d.at(row * o.n + 7)); };
  const float long_number = 1 + 0x1p-9f + 0x1p-18f;  // none of its parts is 0
  b.host.as<float>()[5 * o.n + 9] = long_number;
  upload(b);
  const Array beside = multiply(o, a, b, nullptr);
  for (int64_t row : {2, 3, 4}) EXPECT_FALSE(std::isfinite(beside.at(row * o.n + 9))) << row;
  EXPECT_NEAR(at(5), 0x1p-127, 0x1p-127) << "may be flushed to zero";
  EXPECT_EQ(at(0), kMost / 2);
  EXPECT_EQ(at(1), -kMost / 2);
  for (int64_t row : {2, 3, 4}) EXPECT_TRUE(std::isnan(at(row))) << row;
  EXPECT_EQ(at(7), 0.5f + 0x1p-24f);
  for (int64_t row = 8; row < o.m; ++row) EXPECT_EQ(at(row), 0) << row;
}

}  // namespace
}  // namespace lockstep::compiler::cuda
