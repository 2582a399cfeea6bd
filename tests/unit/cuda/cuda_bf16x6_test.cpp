// Products of f32 as six of bf16 without a GPU: what they take, where they pay, their kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "compiler/codegen/cuda/convolution/convolution.h"
#include "compiler/codegen/cuda/matmul/bf16x6_tiles.h"
#include "compiler/codegen/cuda/matmul/gemm_bf16x6.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "tests/unit/cuda/cuda_on_host.h"

namespace lockstep::compiler::cuda {
namespace {

GemmOptions shape(int64_t m, int64_t n, int64_t k) {
  return {.m = m, .n = n, .k = k, .tb = true, .lda = k, .ldb = k, .ldd = n};
}

TEST(CudaBf16x6, SaysWhatItDoesNotTake) {
  Properties hopper;
  hopper.major = 9, hopper.shared_per_block = 232448;
  auto unfit = [&](auto change) {
    GemmOptions options = shape(4096, 4096, 4096);
    Properties device = hopper;
    change(options, device);
    return unfit_for_bf16x6(options, device);
  };
  const std::string f32 = "only products of f32 run so";
  EXPECT_EQ(unfit([](auto& o, auto&) { o.tf32 = true; }), f32);
  EXPECT_EQ(unfit([](auto& o, auto&) { o.in = DType::bf16; }), f32);
  EXPECT_EQ(unfit([](auto& o, auto&) { o.in = o.out = DType::f64; }), f32);
  EXPECT_EQ(unfit([](auto& o, auto&) { o.epilogue = Epilogue::sums_a; }), "it has no epilogue sums_a");
  EXPECT_EQ(unfit([](auto& o, auto&) { o.m = o.n = 100000; }),
            "the parts of its smaller operand take more than 2 GiB");
  EXPECT_EQ(unfit([](auto& o, auto&) { o.n = 8, o.k = 2000000; }),
            "the parts of 128 rows of its larger operand take more than 1 GiB");
  EXPECT_EQ(unfit([](auto&, auto& d) { d.major = 10; }), "compute capability 10.0 is not Hopper's 9.0");
  EXPECT_EQ(unfit([](auto&, auto& d) { d.shared_per_block = 101376; }),
            "a block has 101376 bytes of shared memory, not 221252");
}

ConvolutionShape windows(ConvolutionShape::Which which, int64_t n, int64_t channels, int64_t outputs,
                         int64_t size, int64_t kernel = 3, int64_t stride = 1) {
  ConvolutionShape s;
  s.which = which, s.channels_last = true, s.n = n, s.channels = channels, s.outputs = outputs;
  s.spatial = {size, size}, s.sizes = {kernel, kernel}, s.stride = {stride, stride}, s.dilation = {1, 1};
  s.lo = s.hi = {kernel / 2, kernel / 2};
  s.counts = {(size - 1) / stride + 1, (size - 1) / stride + 1};
  return s;
}

TEST(CudaBf16x6, SaysWhichConvolutionsItDoesNotTake) {
  using Which = ConvolutionShape::Which;
  Properties hopper;
  hopper.major = 9, hopper.shared_per_block = 232448;
  auto unfit = [&](Which which, auto change) {
    ConvolutionShape s = windows(which, 32, 64, 64, 28);
    change(s);
    return unfit_for_bf16x6(s, hopper);
  };
  const std::string kind = "only convolutions of f32 over two dims, without groups, channels last, run so",
                    far = "a stride is longer than 8, or a window or its padding than 127";
  EXPECT_EQ(unfit(Which::forward, [](auto& s) { s.dtype = DType::bf16; }), kind);
  EXPECT_EQ(unfit(Which::forward, [](auto& s) { s.channels_last = false; }), kind);
  EXPECT_EQ(unfit(Which::weight, [](auto& s) { s.groups = 2; }), kind);
  EXPECT_EQ(unfit(Which::input, [](auto& s) { s.stride = {2, 2}; }),
            "the gradient of an input runs so at strides of 1 alone");
  EXPECT_EQ(unfit(Which::forward, [](auto& s) { s.channels = 3; }),
            "3 channels of a pixel are no multiple of 8");
  EXPECT_EQ(unfit(Which::input, [](auto& s) { s.outputs = 2; }),
            "2 channels of a pixel are no multiple of 8");
  for (const Which which : {Which::forward, Which::input, Which::weight}) {
    EXPECT_EQ(unfit(which, [](auto& s) { s.n = 0; }), "it is empty");
    EXPECT_EQ(unfit(which, [](auto& s) { s.channels = 0; }), "it is empty");
    EXPECT_EQ(unfit(which, [](auto& s) { s.spatial = {0, 8}; }), "it is empty");
  }
  EXPECT_EQ(unfit(Which::forward, [](auto& s) { s.stride = {1, 9}; }), far);
  EXPECT_EQ(unfit(Which::weight, [](auto& s) { s.dilation = {64, 1}; }), far);
  EXPECT_EQ(unfit(Which::weight, [](auto& s) { s.spatial = s.counts = {3000, 3000}; }),
            "the parts of an operand take more than 2 GiB");
  hopper.major = 8;
  const std::string ampere = "compute capability 8.0 is not Hopper's 9.0";
  EXPECT_EQ(unfit(Which::forward, [](auto&) {}), ampere);
  EXPECT_EQ(unfit(Which::weight, [](auto& s) { s.n = 20000; }), ampere) << "samples go some at a time";
}

// Measured, bench/results: where windows are few or read few channels, cuDNN's engines are as fast.
TEST(CudaBf16x6, PaysForConvolutionsOfManyChannels) {
  using Which = ConvolutionShape::Which;
  for (const Which which : {Which::forward, Which::input, Which::weight}) {
    EXPECT_TRUE(pays_bf16x6(windows(which, 256, 64, 64, 56)));
    EXPECT_TRUE(pays_bf16x6(windows(which, 256, 512, 512, 7)));
    EXPECT_FALSE(pays_bf16x6(windows(which, 2, 16, 16, 8)));
  }
  EXPECT_FALSE(pays_bf16x6(windows(Which::input, 256, 64, 128, 56, 3, 2))) << "strides";
  for (const Which which : {Which::forward, Which::input}) {
    EXPECT_TRUE(pays_bf16x6(windows(which, 256, 64, 32, 96)));
    EXPECT_TRUE(pays_bf16x6(windows(which, 256, 32, 64, 48)));
    EXPECT_FALSE(pays_bf16x6(windows(which, 256, 32, 32, 96)));
  }
  EXPECT_TRUE(pays_bf16x6(windows(Which::weight, 256, 32, 32, 96)));
}

// Measured, bench/results: where it does not pay, parts take as long as the product.
TEST(CudaBf16x6, PaysWhereSumsAndTilesAreMany) {
  EXPECT_TRUE(pays_bf16x6(shape(32768, 768, 768)));
  EXPECT_TRUE(pays_bf16x6(shape(32768, 50304, 768)));
  EXPECT_TRUE(pays_bf16x6(shape(768, 3072, 32768)));
  EXPECT_TRUE(pays_bf16x6(shape(4096, 4096, 4096)));
  EXPECT_FALSE(pays_bf16x6(shape(64, 64, 64)));
  EXPECT_FALSE(pays_bf16x6(shape(1, 50304, 768)));
  EXPECT_FALSE(pays_bf16x6(shape(32768, 64, 64)));
}

TEST(CudaBf16x6, TheKernelsCompile) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  EXPECT_NE(compile_cubin(bf16x6_split_source(), "sm_90").find("split_bf16x3"), std::string::npos);
  using Pixels = TileForm::Pixels;
  for (const TileForm& form : {TileForm{false, false},
                               {false, true},
                               {true, false},
                               {true, true},
                               {false, false, Pixels::a},
                               {false, true, Pixels::a},
                               {true, true, Pixels::b}})
    for (const auto& [m, n] : {std::pair{512, 512}, {512, 64}, {64, 512}})
      EXPECT_NE(
          compile_cubin(bf16x6_tiles_source(form.of(m, n)), "sm_90a", {"--device-as-default-execution-space"})
              .find("bf16x6_tiles"),
          std::string::npos);
}

float bf16_at(const std::vector<uint16_t>& parts, size_t i) {
  return static_cast<float>(get_double(DType::bf16, &parts[i], 0));
}

TEST(CudaBf16x6, TheThreePartsOfANumberAreTheNumber) {
  const test::CudaOnHost kernels(bf16x6_split_source(), {"split_bf16x3"});
  constexpr float kMost = std::numeric_limits<float>::max(), kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> special{
      kMost, -kMost, kInf, -kInf, std::nanf(""), -0.f, 0x1p-109f + 0x1p-132f, 1 - 0x1p-24f};
  for (auto [rows, columns, ld] : {std::array<int, 3>{5, 24, 24}, {3, 19, 23}, {4, 8, 12}, {1, 1, 1}}) {
    const int batch = 2;
    const long long stride = static_cast<long long>(rows) * ld + 4, to_ld = (columns + 7) / 8 * 8,
                    plane = rows * to_ld;
    std::vector<float> x(static_cast<size_t>(batch * stride));
    std::mt19937 random(3);
    for (float& value : x)
      value = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                         static_cast<int>(random() % 160) - 80);
    for (size_t i = 0; i < special.size() && i < static_cast<size_t>(columns); ++i) x[i] = special[i];
    std::vector<uint16_t> parts(static_cast<size_t>(3 * batch * plane), 0x7fff);
    const float* from = x.data();
    uint16_t* to = parts.data();
    int m = rows, n = columns, batches = batch, wide = ld % 4 == 0, ticket = 7;
    long long row = ld, between = stride, to_row = to_ld;
    int* begin = &ticket;
    void* args[] = {&from, &to, &m, &n, &row, &between, &to_row, &batches, &wide, &begin};
    kernels.launch("split_bf16x3", 2, 256, args);
    EXPECT_EQ(ticket, 0);
    for (int b = 0; b < batch; ++b)
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c) {
          const float want = x[static_cast<size_t>(b * stride + r * ld + c)];
          float part[3];
          for (int k = 0; k < 3; ++k)
            part[k] = bf16_at(parts, static_cast<size_t>((3 * b + k) * plane + r * to_ld + c));
          if (std::isfinite(want)) {
            EXPECT_EQ(static_cast<double>(part[0]) + part[1] + part[2], static_cast<double>(want)) << want;
            EXPECT_LE(std::fabs(part[1]), std::fabs(part[0]) * 0x1p-7f);
          } else {
            EXPECT_EQ(std::isnan(part[0]), std::isnan(want));
            EXPECT_EQ(part[1], 0);
            EXPECT_EQ(part[2], 0);
          }
        }
  }
}

TEST(CudaBf16x6, PiecesAreAddedInTheirOrder) {
  const test::CudaOnHost kernels(bf16x6_split_source(), {"sum_pieces"});
  const long long rows = 3, n = 5, ldd = 7, batch = 2, stride_d = rows * ldd + 1, piece = batch * rows * n;
  const int count = 4;
  std::vector<float> pieces(static_cast<size_t>(piece * count)), bias(static_cast<size_t>(n)),
      d(static_cast<size_t>(batch * stride_d), -1);
  std::mt19937 random(5);
  std::normal_distribution<float> draw;
  for (float& x : pieces) x = draw(random);
  for (float& x : bias) x = draw(random);
  for (bool biased : {false, true}) {
    const float *from = pieces.data(), *added = biased ? bias.data() : nullptr;
    float* to = d.data();
    long long all = piece, columns = n, ld = ldd, height = rows, stride = stride_d;
    int pieces_of = count;
    void* args[] = {&from, &to, &added, &all, &pieces_of, &columns, &ld, &height, &stride};
    kernels.launch("sum_pieces", 1, 256, args);
    for (long long i = 0; i < piece; ++i) {
      float want = pieces[static_cast<size_t>(i)];
      for (int k = 1; k < count; ++k) want += pieces[static_cast<size_t>(k * piece + i)];
      if (biased) want += bias[static_cast<size_t>(i % n)];
      EXPECT_EQ(d[static_cast<size_t>(i / n / rows * stride_d + i / n % rows * ldd + i % n)], want) << i;
    }
    EXPECT_EQ(d[5], -1) << "between rows";
  }
}

}  // namespace
}  // namespace lockstep::compiler::cuda
