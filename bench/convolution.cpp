// bench-convolution [threads]: the library calls of a convolution and its two gradients at the shapes of
// resnet18 on 8 images of 96 px, in milliseconds (the best of several) and Gflop/s.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "compiler/autodiff/autodiff.h"
#include "compiler/codegen/target.h"
#include "compiler/lower/decompose.h"
#include "compiler/pipeline.h"
#include "compiler/runtime/executable.h"
#include "core/functions/spatial/pooling.h"
#include "core/ops/op.h"

namespace {
using namespace lockstep;
using namespace lockstep::compiler;

struct Layer {
  int64_t channels, outputs, size, kernel, stride, padding;
};
constexpr Layer kLayers[] = {{3, 64, 96, 7, 2, 3},    {64, 64, 24, 3, 1, 1},  {64, 128, 24, 3, 2, 1},
                             {128, 128, 12, 3, 1, 1}, {64, 128, 24, 1, 2, 0}, {128, 256, 12, 3, 2, 1},
                             {256, 256, 6, 3, 1, 1},  {256, 512, 6, 3, 2, 1}, {512, 512, 3, 3, 1, 1}};

double milliseconds(const LibraryCall& call, std::vector<void*> args, Stream& stream, int threads) {
  std::vector<char> workspace(call.workspace(threads) + 256);
  auto at = reinterpret_cast<uintptr_t>(workspace.data());
  void* aligned = reinterpret_cast<void*>((at + 255) / 256 * 256);
  double best = 1e9;
  for (int i = 0; i < 100; ++i) {
    auto start = std::chrono::steady_clock::now();
    call.enqueue(args.data(), aligned, stream, threads);
    stream.synchronize();
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void measure(DType dtype, const Layer& l, int threads) {
  const int64_t out = (l.size + 2 * l.padding - l.kernel) / l.stride + 1, n = 8;
  const TypedShape x{dtype, {n, l.channels, l.size, l.size}},
      w{dtype, {l.outputs, l.channels, l.kernel, l.kernel}}, y{dtype, {n, l.outputs, out, out}};
  using List = std::vector<int64_t>;
  Attrs attrs{{"stride", List(2, l.stride)},
              {"lo", List(2, l.padding)},
              {"hi", List(2, l.padding)},
              {"dilation", List(2, 1)},
              {"groups", int64_t{1}}};
  auto stream = cpu_target().device().make_stream();
  std::printf("%-5s %4ld -> %4ld, %2ld px, k %ld, s %ld:", std::string(name(dtype)).c_str(), l.channels,
              l.outputs, l.size, l.kernel, l.stride);
  auto run = [&](OpId op, const TypedShape& a, const TypedShape& b, const TypedShape& c,
                 const Shape& spatial) {
    Graph graph;
    Attrs own = attrs;
    if (!spatial.empty()) own.set("spatial", List(spatial.begin() + 2, spatial.end()));
    auto in0 = graph.add_input(InputKind::value, "a", a.dtype, a.shape),
         in1 = graph.add_input(InputKind::value, "b", b.dtype, b.shape);
    graph.append(op, {in0, in1}, own, {{c.dtype, c.shape}}, {});
    auto call = cpu_target().make_library_call(
        graph.nodes[0], {dense_operand(a.dtype, a.shape), dense_operand(b.dtype, b.shape)},
        {dense_operand(c.dtype, c.shape)}, {});
    std::vector<std::vector<char>> memory;
    std::vector<void*> args;
    for (const TypedShape* t : {&a, &b, &c}) {
      memory.emplace_back(static_cast<size_t>(numel(t->shape)) * size_of(t->dtype));
      args.push_back(memory.back().data());
    }
    const double ms = milliseconds(*call, args, *stream, threads);
    std::printf("  %s %.3f ms %4.0f Gflop/s",
                op == ops::convolution              ? "forward"
                : op == ops::convolution_grad_input ? "input"
                                                    : "weight",
                ms, call->flops() / ms / 1e6);
  };
  run(ops::convolution, x, w, y, {});
  run(ops::convolution_grad_input, y, w, x, x.shape);
  run(ops::convolution_grad_weight, x, y, w, w.shape);
  std::printf("\n");
}

// A graph of one value, x, and the kernels that it becomes.
void measure_graph(const char* what, const std::function<Tensor(Tensor)>& function, const Shape& shape,
                   bool backward, int threads) {
  auto builder = std::make_shared<Builder>();
  Tensor x(builder, builder->graph.add_input(InputKind::value, "x", DType::f32, shape)), y = function(x),
                                                                                         out = y;
  if (backward) {
    Tensor dy(builder, builder->graph.add_input(InputKind::value, "dy", DType::f32, y.shape()));
    out = vjp_graph(builder, y.id(), dy, {x.id()})[0];
    builder->graph.add_output(OutputKind::value, "y", y.id());
  }
  builder->graph.add_output(OutputKind::value, "out", out.id());
  CompileOptions options;
  options.threads = threads;
  PassContext context{Mesh{}, {}, options};
  Graph lowered = run_passes(decompose(builder->graph, context), phase_passes(), context);
  auto kernels = cpu_target().compile(kernels_of(lowered, options), target_options(options));
  Executable executable(lowered, kernels, options);
  std::vector<std::vector<float>> memory;
  std::vector<void*> inputs;
  for (const auto& input : lowered.inputs) {
    memory.emplace_back(static_cast<size_t>(numel(lowered[input.value].shape)));
    for (size_t i = 0; i < memory.back().size(); ++i) memory.back()[i] = static_cast<float>(i * 37 % 101);
    inputs.push_back(memory.back().data());
  }
  auto stream = cpu_target().device().make_stream();
  double best = 1e9;
  for (int i = 0; i < 60; ++i) {
    auto start = std::chrono::steady_clock::now();
    executable.run(inputs, *stream);
    stream->synchronize();
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%s%s: %.3f ms\n", what, backward ? ", forward and backward" : "", best);
}
}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  for (DType dtype : {DType::f32, DType::bf16})
    for (const Layer& layer : kLayers) measure(dtype, layer, threads);
  for (bool backward : {false, true}) {
    const PoolOptions how{.stride = {2}, .padding = {1}};
    measure_graph(
        "max_pool 3, s 2, 64 x 48 x 48", [&](Tensor x) { return max_pool(x, {3}, how); }, {8, 64, 48, 48},
        backward, threads);
    measure_graph(
        "avg_pool 3, s 2, 64 x 48 x 48", [&](Tensor x) { return avg_pool(x, {3}, how); }, {8, 64, 48, 48},
        backward, threads);
  }
}
