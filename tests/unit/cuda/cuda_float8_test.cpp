// The kernels of float8 without a GPU: they compile, and on the host both layouts are those of the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/types/dtype.h"
#include "tests/unit/cuda/cuda_on_host.h"

namespace lockstep::compiler::cuda {
namespace {

TEST(CudaFloat8, TheKernelsCompile) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  for (DType from : {DType::f32, DType::bf16})
    for (DType to : {DType::f8_e4m3, DType::f8_e5m2})
      EXPECT_NE(compile_cubin(quantize_source(from, to), "sm_90").find("quantize"), std::string::npos);
}

// The one instruction that a host does not have, as the conversion that it is.
uint8_t to_e4m3(float value) { return f8_e4m3(value).bits; }
std::string on_host(std::string source) {
  const size_t from = source.find("asm(\"cvt.rn.satfinite"), to = source.find(";\n", from);
  if (from == std::string::npos) return source;
  source.replace(from, to - from, "out = (unsigned short)(encode(lo) | encode(hi) << 8)");
  return "extern \"C\" { unsigned char (*encode)(float); }\n" + source;
}

float get_float(uint16_t bits) { return static_cast<float>(get_double(DType::bf16, &bits, 0)); }
std::vector<uint16_t> random_halves(int64_t count) {
  std::mt19937 random(11);
  std::normal_distribution<float> draw;
  std::vector<uint16_t> out(static_cast<size_t>(count));
  for (uint16_t& value : out) value = bf16(draw(random)).bits;
  return out;
}

TEST(CudaFloat8, QuantizeWritesBothLayouts) {
  const test::CudaOnHost kernels(on_host(quantize_source(DType::bf16, DType::f8_e4m3)), {"quantize"},
                                 {{"encode", reinterpret_cast<void*>(to_e4m3)}});
  for (auto [rows, columns] : {std::pair(16, 16), {144, 272}, {128, 128}, {304, 48}}) {
    const std::vector<uint16_t> x = random_halves(int64_t{rows} * columns);
    float most = 3;  // less than the largest: some are beyond it
    const float scale = 448 / most;
    std::vector<uint8_t> out(x.size()), turned(x.size());
    float inverse = 0;
    const uint16_t* data = x.data();
    const float* given = &most;
    uint8_t *to = out.data(), *to_turned = turned.data();
    float* to_inverse = &inverse;
    int m = rows, k = columns, across = (columns + 127) / 128;
    void* args[] = {&data, &given, &to, &to_turned, &to_inverse, &m, &k, &across};
    kernels.launch("quantize", static_cast<unsigned>((rows + 127) / 128 * across), 256, args);
    EXPECT_EQ(inverse, most / 448);
    int wrong = 0;
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) {
        const uint8_t want = to_e4m3(get_float(x[r * columns + c]) * scale);
        wrong += out[r * columns + c] != want || turned[c * rows + r] != want;
      }
    EXPECT_EQ(wrong, 0) << rows << "x" << columns;
  }
}

TEST(CudaFloat8, CastAndTransposeAreQuantizeInTwo) {
  const test::CudaOnHost kernels(on_host(quantize_source(DType::bf16, DType::f8_e4m3)),
                                 {"cast_float8", "transpose_float8"},
                                 {{"encode", reinterpret_cast<void*>(to_e4m3)}});
  for (auto [rows, columns] : {std::pair(16, 16), {144, 272}, {128, 128}, {304, 48}}) {
    const std::vector<uint16_t> x = random_halves(int64_t{rows} * columns);
    float most = 3;  // less than the largest: some are beyond it
    std::vector<uint8_t> out(x.size()), turned(x.size());
    float inverse = 0;
    const uint16_t* data = x.data();
    const float* given = &most;
    uint8_t *to = out.data(), *to_turned = turned.data();
    float* to_inverse = &inverse;
    long long groups = int64_t{rows} * columns / 8;
    void* cast[] = {&data, &given, &to, &groups};
    kernels.launch("cast_float8", 2, 256, cast);  // fewer threads than groups
    int m = rows, k = columns, across = (columns + 127) / 128;
    void* turn[] = {&to, &given, &to_turned, &to_inverse, &m, &k, &across};
    kernels.launch("transpose_float8", static_cast<unsigned>((rows + 127) / 128 * across), 256, turn);
    EXPECT_EQ(inverse, most / 448);
    int wrong = 0;
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) {
        const uint8_t want = to_e4m3(get_float(x[r * columns + c]) * (448 / most));
        wrong += out[r * columns + c] != want || turned[c * rows + r] != want;
      }
    EXPECT_EQ(wrong, 0) << rows << "x" << columns;
  }
}

TEST(CudaFloat8, QuantizeRowwiseHasAScaleForEachRowAndColumn) {
  const test::CudaOnHost kernels(on_host(quantize_source(DType::bf16, DType::f8_e4m3)), {"quantize_rowwise"},
                                 {{"encode", reinterpret_cast<void*>(to_e4m3)}});
  for (auto [rows, columns] : {std::pair(16, 16), {144, 272}, {128, 128}, {304, 48}}) {
    const std::vector<uint16_t> x = random_halves(int64_t{rows} * columns);
    std::vector<float> of_row(rows), of_column(columns);
    for (int r = 0; r < rows; ++r) of_row[r] = r == 3 ? 0 : 1 + static_cast<float>(r) / 64;
    for (int c = 0; c < columns; ++c) of_column[c] = 4 - static_cast<float>(c) / 128;
    std::vector<uint8_t> out(x.size()), turned(x.size());
    std::vector<float> inverse(rows), inverse_turned(columns);
    const uint16_t* data = x.data();
    const float *rows_most = of_row.data(), *columns_most = of_column.data();
    uint8_t *to = out.data(), *to_turned = turned.data();
    float *to_inverse = inverse.data(), *to_inverse_turned = inverse_turned.data();
    int m = rows, k = columns, across = (columns + 127) / 128;
    void* args[] = {&data, &rows_most, &columns_most, &to, &to_turned, &to_inverse, &to_inverse_turned,
                    &m,    &k,         &across};
    kernels.launch("quantize_rowwise", static_cast<unsigned>((rows + 127) / 128 * across), 256, args);
    auto kept = [](float most) { return std::max(most, 1e-12f); };
    int wrong = 0;
    for (int r = 0; r < rows; ++r) wrong += inverse[r] != kept(of_row[r]) / 448;
    for (int c = 0; c < columns; ++c) wrong += inverse_turned[c] != kept(of_column[c]) / 448;
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) {
        const float value = get_float(x[r * columns + c]);
        wrong += out[r * columns + c] != to_e4m3(value * (448 / kept(of_row[r])));
        wrong += turned[c * rows + r] != to_e4m3(value * (448 / kept(of_column[c])));
      }
    EXPECT_EQ(wrong, 0) << rows << "x" << columns;
  }
}

}  // namespace
}  // namespace lockstep::compiler::cuda
