// Convolutions of the CPU in bf16 beside the same call in f32, over even and odd channels and outputs:
// products of bf16 are exact and sums are f32, so that results differ by one rounding, whatever the processor
// multiplies.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/codegen/library/convolution_shape.h"
#include "core/device/device.h"
#include "tests/unit/compiler/convolution_case.h"

namespace lockstep::compiler {
namespace {

// The element of [N, C, s...] that lies at `at` in memory, channels first or last.
int64_t element_at(const Shape& shape, int64_t at, bool last) {
  if (!last || shape.size() < 3) return at;
  const int64_t plane = numel(shape) / shape[0] / shape[1], sample = at / (plane * shape[1]),
                pixel = at / shape[1] % plane, channel = at % shape[1];
  return (sample * shape[1] + channel) * plane + pixel;
}

// What a call makes of numbers that depend on the element alone, element by element.
std::vector<double> run(const test::ConvolutionCase& c, OpId op, DType dtype, bool last = false,
                        int threads = 2) {
  const Graph graph = c.graph(op, dtype);
  std::vector<Operand> in = c.operands(op, dtype), out{c.result(op, dtype)};
  for (auto* operands : {&in, &out})
    for (Operand& operand : *operands)
      if (last && operand.shape.size() > 2) operand.strides = channels_last_strides(operand.shape);
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<std::vector<std::byte>> memory;
  for (const Operand& operand : in) {
    std::vector<double> drawn(numel(operand.shape));
    for (double& x : drawn) x = uniform(random);
    // Behind it stands what nobody may read: NaN.
    memory.emplace_back(numel(operand.shape) * size_of(dtype) + 4096, std::byte{0xff});
    for (int64_t i = 0; i < numel(operand.shape); ++i) {
      std::byte rounded[2];
      set_double(DType::bf16, rounded, 0, drawn[element_at(operand.shape, i, last)]);
      set_double(dtype, memory.back().data(), i, get_double(DType::bf16, rounded, 0));
    }
  }
  memory.emplace_back(numel(out[0].shape) * size_of(dtype), std::byte{0xff});
  std::vector<void*> args;
  for (auto& one : memory) args.push_back(one.data());
  const auto call = make_library_call(graph.nodes[0], in, out);
  std::vector<std::byte> workspace(call->workspace(threads) + 256, std::byte{0xff});
  void* at = workspace.data() + (256 - reinterpret_cast<uintptr_t>(workspace.data()) % 256) % 256;
  call->enqueue(args.data(), at, *cpu_device().make_stream(), threads);
  std::vector<double> values(numel(out[0].shape));
  for (int64_t i = 0; i < numel(out[0].shape); ++i)
    values[element_at(out[0].shape, i, last)] = get_double(dtype, memory.back().data(), i);
  return values;
}

// The largest difference as a part of the largest number; NaN stays.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, error = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::abs(b[i]));
    const double e = std::abs(a[i] - b[i]);
    if (!(e <= error)) error = e;
  }
  return most > 0 ? error / most : error;
}

TEST(Convolution, Bf16IsF32RoundedOverAnyChannels) {
  for (OpId op : {ops::convolution, ops::convolution_grad_input, ops::convolution_grad_weight})
    for (int64_t size : {1, 3})
      for (int64_t groups : {1, 2})
        for (int64_t channels : {1, 2, 3, 16, 17})
          for (int64_t outputs : {1, 2, 3, 5, 16, 17}) {
            test::ConvolutionCase c{{2, groups * channels, 6, 5}, {groups * outputs, channels, size, size}};
            c.stride = c.dilation = {1, 1}, c.padding = {size / 2, size / 2}, c.groups = groups;
            const std::vector<double> halves = run(c, op, DType::bf16), floats = run(c, op, DType::f32);
            EXPECT_LE(difference(halves, floats), 0.005) << op << " " << str(c.x) << " by " << str(c.w);
          }
}

// Planes of few pixels and of one, where oneDNN multiplies pixels in pairs and the last has no other half.
TEST(Convolution, Bf16IsF32RoundedOverSmallPlanes) {
  for (int64_t height : {1, 2, 3})
    for (int64_t width : {1, 2, 3, 5})
      for (int64_t stride : {1, 2})
        for (const auto& [channels, outputs] : {std::pair<int64_t, int64_t>{64, 128}, {16, 32}, {17, 16}})
          for (int64_t samples : {1, 2, 3}) {
            const test::ConvolutionCase c{{samples, channels, height, width},
                                          {outputs, channels, 3, 3},
                                          {stride, stride},
                                          {1, 1},
                                          {1, 1}};
            for (OpId op : test::kConvolutionOps)
              for (bool last : {false, true}) {
                const Graph graph = c.graph(op, DType::bf16);
                if (last && !wants_channels_last(graph, graph.nodes[0])) continue;
                const std::vector<double> halves = run(c, op, DType::bf16, last),
                                          floats = run(c, op, DType::f32);
                EXPECT_LE(difference(halves, floats), 0.005) << op << " " << str(c.x) << " by " << str(c.w)
                                                             << " stride " << stride << " last " << last;
              }
          }
}

// Samples in one block and in several, channels in parts, products of pixels, depthwise; the same bits on any
// threads.
TEST(Convolution, ChannelsLastIsChannelsFirst) {
  std::vector<test::ConvolutionCase> cases;
  for (const test::ConvolutionCase& c : test::convolution_cases())
    if (c.x.size() == 4 && (c.groups == 1 || c.groups == c.x[1])) cases.push_back(c);
  cases.push_back({{1, 64, 9, 9}, {128, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true});
  cases.push_back({{9, 64, 6, 6}, {256, 64, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, false});
  cases.push_back({{5, 33, 8, 13}, {33, 1, 5, 11}, {1, 1}, {2, 5}, {1, 1}, 33, true});
  cases.push_back({{17, 8, 5, 6}, {8, 1, 4, 2}, {2, 1}, {3, 0}, {1, 3}, 8, false});
  cases.push_back({{8, 256, 7, 7}, {64, 256, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, true});
  int calls = 0;
  for (const test::ConvolutionCase& c : cases)
    for (OpId op : test::kConvolutionOps)
      for (DType dtype : {DType::f32, DType::bf16}) {
        const Graph graph = c.graph(op, dtype);
        if (!wants_channels_last(graph, graph.nodes[0])) continue;
        ++calls;
        const std::vector<double> first = run(c, op, dtype), last = run(c, op, dtype, true);
        EXPECT_LE(difference(last, first), dtype == DType::f32 ? 1e-5 : 0.005)
            << op << " " << name(dtype) << " " << str(c.x) << " by " << str(c.w);
        for (int threads : {1, 3}) EXPECT_EQ(run(c, op, dtype, true, threads), last) << op << " " << str(c.w);
      }
  EXPECT_GE(calls, 36);
}

}  // namespace
}  // namespace lockstep::compiler
