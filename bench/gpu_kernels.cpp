// bench-gpu-kernels: GB/s of generated kernels in the sizes of GPT-2 124M with 64 x 1024 tokens, beside a
// copy on the device.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>

#include "compiler/codegen/cuda/loops/kernels.h"
#include "compiler/fuse/fuse.h"
#include "compiler/lower/decompose.h"
#include "compiler/lower/simplify.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/functions/functions.h"
#include "core/ops/op.h"

namespace lockstep::compiler::cuda {
namespace {

class Case {
 public:
  Case() { builder_->graph.mesh = Mesh{{}, {}}; }
  Tensor in(DType dtype, Shape shape) {
    return {builder_,
            builder_->graph.add_input(InputKind::value, str("x", count_++), dtype, std::move(shape))};
  }
  void out(const Tensor& tensor) {
    builder_->graph.add_output(OutputKind::value, str("y", outputs_++), tensor.id());
  }
  Graph take() { return fuse(simplify(decompose(builder_->graph, {}), {})); }

 private:
  std::shared_ptr<Builder> builder_ = std::make_shared<Builder>();
  int count_ = 0, outputs_ = 0;
};

// Random contents: floats in (0, 1), integers below 50000.
Buffer random_buffer(CudaDevice& device, DType dtype, int64_t count) {
  static std::mt19937 engine(7);
  const auto bytes = static_cast<size_t>(count) * size_of(dtype);
  Buffer out(std::max<size_t>(bytes, 256), device.memory());
  const int64_t some = std::min<int64_t>(count, 1 << 20);
  Buffer pattern(static_cast<size_t>(some) * size_of(dtype));
  std::uniform_real_distribution<double> draw(0.01, 1);
  for (int64_t i = 0; i < some; ++i) {
    if (is_float(dtype))
      set_double(dtype, pattern.data(), i, draw(engine));
    else
      set_int(dtype, pattern.data(), i, dtype == DType::boolean ? 1 : static_cast<int64_t>(engine() % 50000));
  }
  for (size_t at = 0; at < bytes; at += pattern.bytes())
    copy_to_device(device, out.data() + at, pattern.data(), std::min(pattern.bytes(), bytes - at));
  return out;
}

class Bench {
 public:
  explicit Bench(CudaDevice& device) : device_(device), stream_(device.make_stream()) {
    check(driver().EventCreate(&begin_, CU_EVENT_DEFAULT), "cuEventCreate");
    check(driver().EventCreate(&end_, CU_EVENT_DEFAULT), "cuEventCreate");
  }
  ~Bench() {
    driver().EventDestroy(begin_);
    driver().EventDestroy(end_);
  }
  Stream& stream() { return *stream_; }

  // The median of 20 runs after 3.
  void time(const std::string& name, double bytes, const std::function<void(Stream&)>& enqueue) {
    std::vector<float> times;
    for (int repeat = 0; repeat < 23; ++repeat) {
      check(driver().EventRecord(begin_, stream_of(*stream_)), "cuEventRecord");
      enqueue(*stream_);
      check(driver().EventRecord(end_, stream_of(*stream_)), "cuEventRecord");
      check(driver().EventSynchronize(end_), "cuEventSynchronize");
      float ms = 0;
      check(driver().EventElapsedTime(&ms, begin_, end_), "cuEventElapsedTime");
      if (repeat >= 3) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    const double ms = times[times.size() / 2];
    std::printf("%-44s %9.3f MB %9.4f ms %8.1f GB/s\n", name.c_str(), bytes * 1e-6, ms, bytes / ms * 1e-6);
    std::fflush(stdout);
  }

  // Every kernel that the graph becomes, one by one; bytes are those of arguments.
  void graph(const std::string& name, const Graph& graph) {
    std::vector<KernelSource> sources;
    for (const Node& node : graph.nodes)
      if (node.body) sources.push_back(cuda::generate_kernel(*node.body));
    auto set = compile_kernels(device_, sources);
    size_t next = 0;
    for (const Node& node : graph.nodes) {
      if (!node.body) continue;
      const Kernel& kernel = set->find(sources[next++].name);
      std::vector<Buffer> buffers;
      std::vector<void*> args;
      double bytes = 0;
      auto add = [&](ValueId value) {
        const Value& v = (*node.body)[value];
        buffers.push_back(random_buffer(device_, v.dtype, numel(v.shape)));
        args.push_back(buffers.back().data());
        bytes += static_cast<double>(numel(v.shape)) * static_cast<double>(size_of(v.dtype));
      };
      for (const auto& input : node.body->inputs) add(input.value);
      for (const auto& output : node.body->outputs) add(output.value);
      Buffer workspace(std::max<size_t>(kernel.workspace(), 256), device_.memory());
      if (bytes < 4e6) continue;
      time(name, bytes, [&](Stream& stream) { kernel.enqueue(args.data(), workspace.data(), stream, 1); });
    }
  }

 private:
  CudaDevice& device_;
  std::unique_ptr<Stream> stream_;
  CUevent begin_ = nullptr, end_ = nullptr;
};

void pointwise_and_rows(Bench& bench, int64_t tokens, int64_t width) {
  const Shape x{tokens, width}, up{tokens, 4 * width}, rows{tokens}, columns{width};
  const DType half = DType::bf16, wide = DType::f32;
  const std::string size = str(" ", x);
  auto run = [&](const std::string& name, const std::function<void(Case&)>& make) {
    Case one;
    make(one);
    bench.graph(name + size, one.take());
  };
  const Attrs tanh_form{{"form", std::string("tanh")}};
  run("residual add", [&](Case& c) { c.out(c.in(half, x) + c.in(half, x)); });
  run("residual add f32", [&](Case& c) { c.out(c.in(wide, x) + c.in(wide, x)); });
  run("layer_norm", [&](Case& c) {
    for (Tensor& y :
         apply("layer_norm", {c.in(half, x), c.in(wide, columns), c.in(wide, columns)}, {{"eps", 1e-5}}))
      c.out(y);
  });
  run("layer_norm_grad + residual", [&](Case& c) {
    auto g = apply("layer_norm_grad",
                   {c.in(half, x), c.in(half, x), c.in(wide, columns), c.in(wide, rows), c.in(wide, rows)});
    c.out(g[0] + c.in(half, x));
    c.out(g[1]), c.out(g[2]);
  });
  run("layer_norm_grad + residual, bias grad, amax", [&](Case& c) {
    auto g = apply("layer_norm_grad",
                   {c.in(half, x), c.in(half, x), c.in(wide, columns), c.in(wide, rows), c.in(wide, rows)});
    Tensor dx = convert(g[0] + c.in(half, x), wide);
    c.out(convert(dx, half)), c.out(g[1]), c.out(g[2]);
    c.out(sum(dx, {0})), c.out(max(abs(dx), {0}));
  });
  run("residual + layer_norm, amax", [&](Case& c) {
    Tensor both = c.in(half, x) + c.in(half, x);
    c.out(both);
    auto y = apply("layer_norm", {both, c.in(wide, columns), c.in(wide, columns)}, {{"eps", 1e-5}});
    for (Tensor& one : y) c.out(one);
    c.out(max(abs(convert(y[0], wide)), {1}));
  });
  run("rms_norm", [&](Case& c) {
    for (Tensor& y : apply("rms_norm", {c.in(half, x), c.in(wide, columns)}, {{"eps", 1e-5}})) c.out(y);
  });
  run("gelu x4", [&](Case& c) { c.out(apply1("gelu", {c.in(half, up)}, tanh_form)); });
  run("gelu_grad x4",
      [&](Case& c) { c.out(apply1("gelu_grad", {c.in(half, up), c.in(half, up)}, tanh_form)); });
  run("gelu_grad + bias grad x4", [&](Case& c) {
    Tensor dx = apply1("gelu_grad", {c.in(half, up), c.in(half, up)}, tanh_form);
    c.out(dx);
    c.out(sum(convert(dx, wide), {0}));
  });
  run("gelu again + gelu_grad + bias grad x4", [&](Case& c) {  // as a step that gives GELU's results up
    Tensor x = c.in(half, up), dx = apply1("gelu_grad", {c.in(half, up), x}, tanh_form);
    c.out(apply1("gelu", {x}, tanh_form));
    c.out(dx);
    c.out(sum(convert(dx, wide), {0}));
  });
  run("bias grad", [&](Case& c) { c.out(sum(convert(c.in(half, x), wide), {0})); });
  run("bias grad x4", [&](Case& c) { c.out(sum(convert(c.in(half, up), wide), {0})); });
  run("dropout", [&](Case& c) {
    c.out(apply1("dropout",
                 {c.in(half, {tokens / 1024, 1024, width}), c.in(DType::i64, {}), c.in(DType::i64, {}),
                  c.in(DType::i64, {})},
                 {{"p", 0.1}, {"stream", int64_t{77}}}));
  });
  run("embedding + position", [&](Case& c) {
    Tensor table = c.in(half, {50304, width}), ids = c.in(DType::i32, {tokens / 1024, 1024}),
           place = c.in(half, {1024, width});
    c.out(embedding(table, ids) + broadcast_to(place, {tokens / 1024, 1024, width}));
  });
}

void losses(Bench& bench, int64_t rows) {
  const Shape shape{rows, 50304};
  Case forward, backward;
  for (auto& y : apply("cross_entropy", {forward.in(DType::bf16, shape), forward.in(DType::i32, {rows})},
                       {{"ignore_index", int64_t{-100}}}))
    forward.out(y);
  bench.graph(str("cross_entropy ", shape), forward.take());
  backward.out(apply1("cross_entropy_grad",
                      {backward.in(DType::f32, {}), backward.in(DType::bf16, shape),
                       backward.in(DType::i32, {rows}), backward.in(DType::f32, {rows})},
                      {{"ignore_index", int64_t{-100}}}));
  bench.graph(str("cross_entropy_grad ", shape), backward.take());
}

// The two as a training step fuses them: the logits are read once and their gradient written once.
void loss_and_gradient(Bench& bench, int64_t rows) {
  const Shape shape{rows, 50304};
  const Attrs attrs{{"ignore_index", int64_t{-100}}};
  Case both;
  Tensor logits = both.in(DType::bf16, shape), targets = both.in(DType::i32, {rows}),
         dsum = both.in(DType::f32, {});
  auto loss = apply("cross_entropy", {logits, targets}, attrs);
  both.out(loss[0]), both.out(loss[1]);
  both.out(apply1("cross_entropy_grad", {dsum, logits, targets, loss[2]}, attrs));
  bench.graph(str("cross_entropy + gradient ", shape), both.take());
}

void adamw(CudaDevice& device, Bench& bench) {
  std::vector<int64_t> sizes{50304 * 768, 1024 * 768, 768, 768};
  for (int layer = 0; layer < 12; ++layer)
    for (int64_t size :
         {768, 768, 2304 * 768, 2304, 768 * 768, 768, 768, 768, 3072 * 768, 3072, 768 * 3072, 768})
      sizes.push_back(size);
  KernelSource source = cuda::generate_multi_tensor(
      multi_tensor_body("adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}}, DType::f32));
  auto set = compile_kernels(device, {source});
  const MultiTensorKernel& kernel = set->find_multi_tensor(source.name);
  std::vector<Buffer> buffers;
  std::vector<void*> table, scalars;
  std::vector<float> decays(sizes.size(), 0.1f);
  double bytes = 0;
  for (int64_t size : sizes) {
    std::vector<void*> own;
    for (int k = 0; k < 4; ++k)
      buffers.push_back(random_buffer(device, DType::f32, size)), own.push_back(buffers.back().data());
    for (int k : {0, 1, 2, 3, 0, 2, 3}) table.push_back(own[static_cast<size_t>(k)]);
    bytes += static_cast<double>(size) * 28;
  }
  for (int k = 0; k < 4; ++k)
    buffers.push_back(random_buffer(device, DType::f32, 1)), scalars.push_back(buffers.back().data());
  bench.time(str("adamw, ", sizes.size(), " tensors, in place"), bytes, [&](Stream& stream) {
    kernel.enqueue(table.data(), sizes.data(), decays.data(), static_cast<int64_t>(sizes.size()),
                   scalars.data(), stream, 1);
  });
}

int run() {
  std::string why;
  if (!available(&why)) {
    std::printf("no CUDA device: %s\n", why.c_str());
    return 0;
  }
  auto device = open_device(0);
  device->enter();
  std::printf("%s\n", device->describe().c_str());
  Bench bench(*device);
  {
    constexpr int64_t kBytes = int64_t{1} << 30;
    Buffer from = random_buffer(*device, DType::u8, kBytes), to(kBytes, device->memory());
    bench.time("copy", 2.0 * kBytes,
               [&](Stream& stream) { device->copy(to.data(), from.data(), kBytes, stream); });
  }
  pointwise_and_rows(bench, 65536, 768);
  pointwise_and_rows(bench, 16384, 1600);
  pointwise_and_rows(bench, 16384, 2048);
  losses(bench, 16384);
  loss_and_gradient(bench, 65536);
  adamw(*device, bench);
  return 0;
}

}  // namespace
}  // namespace lockstep::compiler::cuda

int main() {
  try {
    return lockstep::compiler::cuda::run();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
