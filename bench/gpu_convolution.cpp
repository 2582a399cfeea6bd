// bench-gpu-convolution [fp32|tf32|bf16] [MODEL] [ours]: each convolution of a training step of ResNet-50
// (128 images of 224 px), ResNet-18 (256) and U-Net (256 of 96 px) and its two gradients alone, channels
// first and channels last: what runs, cuDNN's fastest engine that may run and its fastest of all, matrix
// products, and products of bf16 on Hopper. Then the sums over each model. "ours": without engines that do
// not run.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/convolution/convolution.h"
#include "compiler/codegen/cuda/library/library.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {
namespace {
using Which = ConvolutionShape::Which;

struct Layer {
  const char* model;
  int64_t count, samples, channels, outputs, size, kernel, stride, padding;
  bool transposed = false;  // its forward is the gradient of an input
};
// size: of the input, of a transposed one of the output.
constexpr Layer kLayers[] = {
    {"resnet50", 1, 128, 3, 64, 224, 7, 2, 3},     {"resnet50", 1, 128, 64, 64, 56, 1, 1, 0},
    {"resnet50", 3, 128, 64, 64, 56, 3, 1, 1},     {"resnet50", 4, 128, 64, 256, 56, 1, 1, 0},
    {"resnet50", 2, 128, 256, 64, 56, 1, 1, 0},    {"resnet50", 1, 128, 256, 128, 56, 1, 1, 0},
    {"resnet50", 1, 128, 128, 128, 56, 3, 2, 1},   {"resnet50", 1, 128, 256, 512, 56, 1, 2, 0},
    {"resnet50", 4, 128, 128, 512, 28, 1, 1, 0},   {"resnet50", 3, 128, 512, 128, 28, 1, 1, 0},
    {"resnet50", 3, 128, 128, 128, 28, 3, 1, 1},   {"resnet50", 1, 128, 512, 256, 28, 1, 1, 0},
    {"resnet50", 1, 128, 256, 256, 28, 3, 2, 1},   {"resnet50", 1, 128, 512, 1024, 28, 1, 2, 0},
    {"resnet50", 6, 128, 256, 1024, 14, 1, 1, 0},  {"resnet50", 5, 128, 1024, 256, 14, 1, 1, 0},
    {"resnet50", 5, 128, 256, 256, 14, 3, 1, 1},   {"resnet50", 1, 128, 1024, 512, 14, 1, 1, 0},
    {"resnet50", 1, 128, 512, 512, 14, 3, 2, 1},   {"resnet50", 1, 128, 1024, 2048, 14, 1, 2, 0},
    {"resnet50", 3, 128, 512, 2048, 7, 1, 1, 0},   {"resnet50", 2, 128, 2048, 512, 7, 1, 1, 0},
    {"resnet50", 2, 128, 512, 512, 7, 3, 1, 1},    {"unet", 1, 256, 3, 32, 96, 3, 1, 1},
    {"unet", 2, 256, 32, 32, 96, 3, 1, 1},         {"unet", 1, 256, 64, 32, 96, 3, 1, 1},
    {"unet", 1, 256, 32, 64, 48, 3, 1, 1},         {"unet", 2, 256, 64, 64, 48, 3, 1, 1},
    {"unet", 1, 256, 128, 64, 48, 3, 1, 1},        {"unet", 1, 256, 64, 128, 24, 3, 1, 1},
    {"unet", 2, 256, 128, 128, 24, 3, 1, 1},       {"unet", 1, 256, 256, 128, 24, 3, 1, 1},
    {"unet", 1, 256, 128, 256, 12, 3, 1, 1},       {"unet", 2, 256, 256, 256, 12, 3, 1, 1},
    {"unet", 1, 256, 512, 256, 12, 3, 1, 1},       {"unet", 1, 256, 256, 512, 6, 3, 1, 1},
    {"unet", 1, 256, 512, 512, 6, 3, 1, 1},        {"unet", 1, 256, 256, 512, 12, 2, 2, 0, true},
    {"unet", 1, 256, 128, 256, 24, 2, 2, 0, true}, {"unet", 1, 256, 64, 128, 48, 2, 2, 0, true},
    {"unet", 1, 256, 32, 64, 96, 2, 2, 0, true},   {"unet", 1, 256, 32, 2, 96, 1, 1, 0},
    {"resnet18", 1, 256, 3, 64, 224, 7, 2, 3},     {"resnet18", 4, 256, 64, 64, 56, 3, 1, 1},
    {"resnet18", 1, 256, 64, 128, 56, 3, 2, 1},    {"resnet18", 1, 256, 64, 128, 56, 1, 2, 0},
    {"resnet18", 3, 256, 128, 128, 28, 3, 1, 1},   {"resnet18", 1, 256, 128, 256, 28, 3, 2, 1},
    {"resnet18", 1, 256, 128, 256, 28, 1, 2, 0},   {"resnet18", 3, 256, 256, 256, 14, 3, 1, 1},
    {"resnet18", 1, 256, 256, 512, 14, 3, 2, 1},   {"resnet18", 1, 256, 256, 512, 14, 1, 2, 0},
    {"resnet18", 3, 256, 512, 512, 7, 3, 1, 1}};

ConvolutionShape shape_of(const Layer& l, Which which, DType dtype, bool last) {
  const int64_t out = (l.size + 2 * l.padding - l.kernel) / l.stride + 1;
  ConvolutionShape s;
  s.which = which, s.dtype = dtype, s.channels_last = last;
  s.n = l.samples, s.channels = l.channels, s.outputs = l.outputs;
  s.spatial = {l.size, l.size}, s.sizes = {l.kernel, l.kernel}, s.counts = {out, out};
  s.stride = {l.stride, l.stride}, s.lo = s.hi = {l.padding, l.padding}, s.dilation = {1, 1};
  return s;
}

class Bench {
 public:
  Bench(DType dtype, bool tf32, bool engines)
      : dtype_(dtype), tf32_(tf32), engines_(engines), stream_(device_->make_stream()) {}
  void measure(const Layer& l) {
    for (Which which : {Which::forward, Which::input, Which::weight})
      for (bool last : {false, true})
        if (last || (dtype_ == DType::f32 && !tf32_)) measure(l, shape_of(l, which, dtype_, last));
  }
  void print_sums() const {
    for (const auto& [name, ms] : sums_) std::printf("sum %-60s %9.3f ms\n", name.c_str(), ms);
  }

 private:
  Buffer& memory(int which, size_t bytes) {
    Buffer& buffer = memory_[which];
    if (buffer.bytes() < bytes) {
      buffer = Buffer();
      buffer = Buffer(bytes, device_->memory());
      if (which < 2) fill(buffer);
    }
    return buffer;
  }
  // Numbers in (-1, 1): operands of one value draw less power, so that the clock stays too high.
  void fill(Buffer& buffer) {
    Buffer block(size_t{1} << 22, device_->staging());
    uint64_t state = 1;
    for (size_t i = 0; i < block.bytes() / size_of(dtype_); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      set_double(dtype_, block.data(), static_cast<int64_t>(i),
                 static_cast<double>(static_cast<int64_t>(state) >> 11) * 0x1p-52);
    }
    for (size_t at = 0; at < buffer.bytes(); at += block.bytes())
      device_->copy(buffer.data() + at, block.data(), std::min(block.bytes(), buffer.bytes() - at), *stream_);
    stream_->synchronize();
  }
  // The least of `kTurns` turns of two calls each, after one that is not counted.
  template <class Enqueue>
  double milliseconds(const Enqueue& enqueue) {
    constexpr int kTurns = 2, kCalls = 2;
    double least = 1e9;
    for (int turn = -1; turn < kTurns; ++turn) {
      const auto start = std::chrono::steady_clock::now();
      for (int call = 0; call < (turn < 0 ? 1 : kCalls); ++call) enqueue();
      stream_->synchronize();
      const double ms =
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      if (turn >= 0) least = std::min(least, ms / kCalls);
    }
    return least;
  }
  double time_plan(const ConvolutionShape& s, const ConvolutionPlan& plan) {
    std::vector<void*> args = arguments(s);
    Buffer& workspace = memory(3, static_cast<size_t>(plan.workspace()) + 256);
    return milliseconds(
        [&] { plan.enqueue(convolution_pointers(s, args.data()), workspace.data(), *stream_); });
  }
  double time_call(const ConvolutionShape& s, const LibraryCall& call) {
    std::vector<void*> args = arguments(s);
    Buffer& workspace = memory(3, call.workspace(1) + 256);
    return milliseconds([&] { call.enqueue(args.data(), workspace.data(), *stream_, 1); });
  }
  std::vector<void*> arguments(const ConvolutionShape& s) {
    const auto x = static_cast<size_t>(s.n * s.channels * s.elements()),
               y = static_cast<size_t>(s.n * s.outputs * s.windows()), w = static_cast<size_t>(s.weights()),
               size = size_of(dtype_);
    const size_t in0 = s.which == Which::input ? y : x, in1 = s.which == Which::weight ? y : w,
                 out = s.which == Which::forward ? y
                       : s.which == Which::input ? x
                                                 : w;
    return {memory(0, in0 * size).data(), memory(1, in1 * size).data(), memory(2, out * size).data()};
  }

  void measure(const Layer& l, const ConvolutionShape& s) {
    const double gflop = convolution_flops(s) * 1e-9;
    std::map<std::string, double> best;  // by what may choose it
    std::string text;
    auto add = [&](const std::string& name, double ms, const std::string& who) {
      char line[400];
      std::snprintf(line, sizeof line, "    %8.3f ms %6.1f TFLOP/s  %-10s %s\n", ms, gflop / ms, who.c_str(),
                    name.c_str());
      text += line;
      if (!best.count(who) || ms < best[who]) best[who] = ms;
    };
    std::string refused;
    double now = 0;
    if (auto plan = plan_convolution(*device_, s, tf32_, refused)) {
      now = time_plan(s, *plan);
      add(plan->name(), now, "runs");
    } else {
      text += "    refused: " + refused.substr(0, 200) + "\n";
    }
    for (const auto& choice :
         engines_ ? convolution_choices(*device_, s, tf32_) : std::vector<ConvolutionChoice>{}) {
      try {
        const std::string who = choice.barred.empty() ? "allowed" : "barred";
        add(choice.plan->name() + (choice.barred.empty() ? "" : " (" + choice.barred + ")"),
            time_plan(s, *choice.plan), who);
      } catch (const Error& error) {
        text += "    " + choice.plan->name() + ": " + std::string(error.what()).substr(0, 160) + "\n";
      }
    }
    if (const auto product = convolution_product(s))
      if (auto call = make_product_convolution(*device_, s, *product, ""))
        add(call->algorithm().substr(call->algorithm().find("; ") + 2), time_call(s, *call), "product");
    if (!tf32_ && unfit_for_bf16x6(s, device_->properties()).empty())
      add(pays_bf16x6(s) ? "bf16x6" : "bf16x6, not chosen",
          time_call(s, *make_bf16x6_convolution(*device_, s, "")), "bf16x6");
    if (const auto mirrored = mirrored_convolution(s))
      if (auto call = make_mirrored_convolution(*device_, s, *mirrored, ""))
        add(call->algorithm().substr(0, call->algorithm().find(" convolution")) +
                (pays_mirrored(s) ? "" : ", not chosen"),
            time_call(s, *call), "mirrored");
    std::printf("%s x%ld%s %s\n%s", l.model, l.count, l.transposed ? " transposed" : "",
                convolution_text(s).c_str(), text.c_str());
    std::fflush(stdout);
    const char* which = s.which == Which::forward ? "forward" : s.which == Which::input ? "input" : "weight";
    const auto times = static_cast<double>(l.count);
    const std::string kind =
        str(l.model, " k=", l.kernel, " s=", l.stride, " ", which, s.channels_last ? " last " : " first ");
    double least = now;
    for (const auto& [who, ms] : best) {
      sums_[kind + who] += ms * times;
      if (who != "barred") least = std::min(least > 0 ? least : ms, ms);
    }
    sums_[kind + "least"] += least * times;
  }

  DType dtype_;
  bool tf32_, engines_;
  std::shared_ptr<CudaDevice> device_ = open_device(0);
  std::unique_ptr<Stream> stream_;
  Buffer memory_[4];
  std::map<std::string, double> sums_;
};
}  // namespace

void bench_convolutions(const std::string& precision, const std::string& model, bool engines) {
  if (precision != "fp32" && precision != "tf32" && precision != "bf16")
    throw UserError(str("bench-gpu-convolution [fp32|tf32|bf16] [MODEL] [ours]: no precision ", precision));
  Bench bench(precision == "bf16" ? DType::bf16 : DType::f32, precision == "tf32", engines);
  for (const Layer& layer : kLayers)
    if (model.empty() || model == layer.model) bench.measure(layer);
  bench.print_sums();
}

}  // namespace lockstep::compiler::cuda

int main(int argc, char** argv) try {
  lockstep::compiler::cuda::bench_convolutions(argc > 1 ? argv[1] : "fp32", argc > 2 ? argv[2] : "",
                                               argc <= 3 || std::string(argv[3]) != "ours");
  return 0;
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
