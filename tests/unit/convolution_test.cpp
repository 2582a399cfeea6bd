// Convolutions of the CPU in bf16 beside the same call in f32, over even and odd channels and outputs:
// products of bf16 are exact and sums are f32, so that results differ by one rounding, whatever the processor
// multiplies.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/codegen/library/library.h"
#include "core/device/device.h"
#include "tests/unit/convolution_case.h"

namespace lockstep::compiler {
namespace {

std::vector<double> run(const test::ConvolutionCase& c, OpId op, DType dtype) {
  const Graph graph = c.graph(op, dtype);
  const std::vector<Operand> in = c.operands(op, dtype), out{c.result(op, dtype)};
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<std::vector<std::byte>> memory;
  for (const Operand& operand : in) {
    memory.emplace_back(numel(operand.shape) * size_of(dtype));
    for (int64_t i = 0; i < numel(operand.shape); ++i) {
      std::byte rounded[2];
      set_double(DType::bf16, rounded, 0, uniform(random));
      set_double(dtype, memory.back().data(), i, get_double(DType::bf16, rounded, 0));
    }
  }
  memory.emplace_back(numel(out[0].shape) * size_of(dtype), std::byte{0xff});
  std::vector<void*> args;
  for (auto& one : memory) args.push_back(one.data());
  const auto call = make_library_call(graph.nodes[0], in, out);
  std::vector<std::byte> workspace(call->workspace(2) + 256, std::byte{0xff});
  void* at = workspace.data() + (256 - reinterpret_cast<uintptr_t>(workspace.data()) % 256) % 256;
  call->enqueue(args.data(), at, *cpu_device().make_stream(), 2);
  std::vector<double> values;
  for (int64_t i = 0; i < numel(out[0].shape); ++i)
    values.push_back(get_double(dtype, memory.back().data(), i));
  return values;
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
            double most = 0, error = 0;
            for (size_t i = 0; i < floats.size(); ++i) {
              most = std::max(most, std::abs(floats[i]));
              const double e = std::abs(halves[i] - floats[i]);
              if (!(e <= error)) error = e;  // NaN stays
            }
            EXPECT_LE(error, 0.005 * most) << op << " " << str(c.x) << " by " << str(c.w);
          }
}

}  // namespace
}  // namespace lockstep::compiler
