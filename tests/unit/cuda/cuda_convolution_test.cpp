// Convolution of the CUDA target without a GPU: the dims that kernels and cuDNN take, refusals, the kernels
// through NVRTC, and their arithmetic on the host.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "compiler/codegen/cpu/compiler.h"
#include "compiler/codegen/cuda/convolution/convolution.h"
#include "compiler/codegen/cuda/library/cudnn.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "tests/support/tolerance.h"
#include "tests/unit/compiler/convolution_case.h"

namespace lockstep::compiler::cuda {
namespace {
using test::ConvolutionCase;
using test::kConvolutionOps;

ConvolutionShape shape_of(const ConvolutionCase& c, OpId op, DType dtype) {
  const Graph graph = c.graph(op, dtype);
  return convolution_shape(graph.nodes[0], c.operands(op, dtype), {c.result(op, dtype)});
}

TEST(CudaConvolution, DimsAreThreeTheLeadingOnesOfOneElement) {
  const ConvolutionShape shape = shape_of(test::convolution_cases()[0], ops::convolution, DType::f32);
  const ConvolutionDims d = convolution_dims(shape);
  EXPECT_EQ((std::vector<int64_t>(d.spatial, d.spatial + 3)), (std::vector<int64_t>{1, 1, 11}));
  EXPECT_EQ((std::vector<int64_t>(d.stride, d.stride + 3)), (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ((std::vector<int64_t>(d.lo, d.lo + 3)), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ((std::vector<int64_t>(d.counts, d.counts + 3)), (std::vector<int64_t>{1, 1, 6}));
  EXPECT_EQ(convolution_text(shape), "convolution f32 n=2 3:11 -> 4:6 k=3 s=2 p=1+1 +bias");
  EXPECT_EQ(convolution_flops(shape), 2.0 * 2 * 6 * 4 * 3 * 3);
}

TEST(CudaConvolution, PointersFollowTheOp) {
  const ConvolutionCase c = test::convolution_cases()[0];
  char memory[4];
  void* args[] = {memory, memory + 1, memory + 2, memory + 3};
  const ConvolutionPointers forward = convolution_pointers(shape_of(c, ops::convolution, DType::f32), args);
  EXPECT_EQ(forward.x, memory);
  EXPECT_EQ(forward.weight, memory + 1);
  EXPECT_EQ(forward.bias, memory + 2);
  EXPECT_EQ(forward.y, memory + 3);
  const ConvolutionPointers input =
      convolution_pointers(shape_of(c, ops::convolution_grad_input, DType::f32), args);
  EXPECT_EQ(input.y, memory);
  EXPECT_EQ(input.weight, memory + 1);
  EXPECT_EQ(input.x, memory + 2);
  EXPECT_EQ(input.bias, nullptr);
  const ConvolutionPointers weight =
      convolution_pointers(shape_of(c, ops::convolution_grad_weight, DType::f32), args);
  EXPECT_EQ(weight.x, memory);
  EXPECT_EQ(weight.y, memory + 1);
  EXPECT_EQ(weight.weight, memory + 2);
}

TEST(CudaConvolution, AMissingLibraryIsNamedWithItsUser) {
  try {
    open_cudnn({"libnone.so.9", "/nowhere/libnone9.so"}, "convolution");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what())
                  .find("convolution on a GPU needs cuDNN 9, and none of libnone.so.9, "
                        "/nowhere/libnone9.so can be opened: "),
              0u)
        << error.what();
  }
}

TEST(CudaConvolution, EveryKernelCompiles) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  const ConvolutionCase c = test::convolution_cases()[1];
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (OpId op : kConvolutionOps)
      EXPECT_GT(compile_cubin(convolution_source(shape_of(c, op, dtype)), "sm_90").size(), 1000u);
    EXPECT_GT(compile_cubin(channel_bias_source(shape_of(c, ops::convolution, dtype)), "sm_90").size(),
              1000u);
  }
  for (const ConvolutionCase& c : test::convolution_cases())
    for (OpId op : kConvolutionOps) {
      ConvolutionShape wide = shape_of(c, op, DType::f32);
      for (bool last : {false, true}) {
        wide.channels_last = last;
        if (const auto product = convolution_product(wide))
          for (const auto& move : {product->a, product->b, product->spread})
            if (move) { EXPECT_GT(compile_cubin(move_pixels_source(*move), "sm_90").size(), 1000u); }
        if (mirrored_convolution(wide)) {
          EXPECT_GT(compile_cubin(mirrored_weight_source(wide), "sm_90").size(), 1000u);
        }
      }
      const ConvolutionShape shape = shape_of(c, op, DType::bf16);
      if (is_depthwise(shape)) { EXPECT_GT(compile_cubin(depthwise_source(shape), "sm_90").size(), 1000u); }
    }
}

// A kernel as C++, one thread after another.
const char* const kHost = R"(
#include <math.h>
#include <string.h>
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(n)
#define __align__(n) alignas(n)
static void __syncthreads() {}
struct Index { unsigned x; };
static Index threadIdx, blockIdx, gridDim;
static float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
static unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
)";
// `turns`: of all threads of a block, where one reads what others left in shared memory.
void run_on_host(const std::string& source, const std::string& call, void* const* args, int64_t blocks,
                 int threads = 256, int turns = 1) {
  static int count = 0;
  const std::string text =
      str(kHost, source, "extern \"C\" void run(void** a, unsigned blocks) {\n  gridDim.x = blocks;\n",
          "  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)\n", "    for (int turn = 0; turn < ",
          turns, "; ++turn)\n", "      for (threadIdx.x = 0; threadIdx.x < ", threads, "; ++threadIdx.x) ",
          call, ";\n}\n");
  const auto path =
      std::filesystem::temp_directory_path() / str("lockstep_convolution_", getpid(), "_", count++, ".so");
  std::ofstream(path, std::ios::binary)
      << cpu::compile_units("g++", "-std=c++17 -O1 -w -shared -fPIC -ffp-contract=off", {text}, 1);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::filesystem::remove(path);
  ASSERT_NE(handle, nullptr) << dlerror();
  reinterpret_cast<void (*)(void* const*, unsigned)>(dlsym(handle, "run"))(args,
                                                                           static_cast<unsigned>(blocks));
  dlclose(handle);
}

TEST(CudaConvolution, TheKernelComputesConvolutionsAndTheirGradients) {
  for (const ConvolutionCase& c : test::convolution_cases()) {
    if (numel(c.x) > 4000) continue;
    for (OpId op : kConvolutionOps)
      for (DType dtype : {DType::f32, DType::bf16}) {
        const Graph graph = c.graph(op, dtype);
        std::vector<HostTensor> in;
        uint64_t seed = 1;
        for (const TypedShape& type : c.in(op, dtype)) {
          in.push_back(make_tensor(type.dtype, type.shape));
          for (int64_t i = 0; i < in.back().size(); ++i)
            in.back().set(i, philox::uniform(philox::bits(seed, 1, 1, static_cast<uint64_t>(i))) - 0.5);
          ++seed;
        }
        const HostTensor right = evaluate(graph, in)[0];
        HostTensor made = make_tensor(right.dtype, right.shape);
        std::fill_n(made.data.data(), made.bytes(), std::byte{0xff});
        std::vector<void*> args;
        for (HostTensor& tensor : in) args.push_back(tensor.data.data());
        args.push_back(made.data.data());
        const ConvolutionShape shape = shape_of(c, op, dtype);
        ConvolutionPointers at = convolution_pointers(shape, args.data());
        void* kernel_args[] = {at.x, at.weight, at.y, at.bias};
        run_on_host(convolution_source(shape),
                    "convolution_element((T_t*)a[0], (T_t*)a[1], (T_t*)a[2], (T_t*)a[3])", kernel_args, 3);
        EXPECT_EQ(testing::difference(made, right), "") << convolution_text(shape);
      }
  }
}

int64_t defined(const std::string& source, const std::string& name) {
  return std::stoll(source.substr(source.find(str("#define ", name, " ")) + name.size() + 9));
}
HostTensor channels_last(const HostTensor& tensor, bool back) {
  HostTensor out = make_tensor(tensor.dtype, tensor.shape);
  const auto strides = channels_last_strides(tensor.shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t at = 0, rest = i;
    for (size_t d = tensor.shape.size(); d-- > 0; rest /= tensor.shape[d])
      at += rest % tensor.shape[d] * strides[d];
    back ? out.set(i, tensor.at(at)) : out.set(at, tensor.at(i));
  }
  return out;
}

TEST(CudaConvolution, TheDepthwiseKernelsComputeChannelsLast) {
  int seen = 0;
  for (const ConvolutionCase& c : test::convolution_cases())
    for (OpId op : kConvolutionOps)
      for (DType dtype : {DType::f32, DType::bf16}) {
        ConvolutionShape shape = shape_of(c, op, dtype);
        if (!is_depthwise(shape)) continue;
        ++seen;
        const Graph graph = c.graph(op, dtype);
        std::vector<HostTensor> in, last;
        uint64_t seed = 1;
        for (const TypedShape& type : c.in(op, dtype)) {
          in.push_back(make_tensor(type.dtype, type.shape));
          for (int64_t i = 0; i < in.back().size(); ++i)
            in.back().set(i, philox::uniform(philox::bits(seed, 1, 1, static_cast<uint64_t>(i))) - 0.5);
          last.push_back(type.shape.size() > 2 ? channels_last(in.back(), false) : in.back());
          ++seed;
        }
        const HostTensor right = evaluate(graph, in)[0];
        HostTensor made = make_tensor(right.dtype, right.shape);
        std::fill_n(made.data.data(), made.bytes(), std::byte{0xff});
        std::vector<void*> args;
        for (HostTensor& tensor : last) args.push_back(tensor.data.data());
        args.push_back(made.data.data());
        const ConvolutionPointers at = convolution_pointers(shape, args.data());
        const std::string source = depthwise_source(shape);
        const int64_t lanes = defined(source, "LANES"), tiles = defined(source, "TILES"), blocks = 600;
        if (op == ops::convolution_grad_weight) {
          std::vector<float> sums(static_cast<size_t>(defined(source, "PARTS") * shape.weights()), NAN);
          void* weight_args[] = {at.x, at.y, sums.data(), at.weight};
          const int64_t groups = defined(source, "GROUPS");
          run_on_host(source, "depthwise((T_t*)a[0], (T_t*)a[1], (float*)a[2])", weight_args,
                      defined(source, "PARTS") / groups * tiles,
                      static_cast<int>(lanes * shape.sizes[0] * groups));
          run_on_host(source, "depthwise_sum((float*)a[2], (T_t*)a[3])", weight_args, 40);
        } else {
          const bool input = op == ops::convolution_grad_input;
          void* slide_args[] = {input ? at.y : at.x, at.weight, input ? at.x : at.y, at.bias};
          run_on_host(source, "depthwise((T_t*)a[0], (T_t*)a[1], (T_t*)a[2], (T_t*)a[3])", slide_args, blocks,
                      static_cast<int>(lanes * defined(source, "STRIPS")), 2);
        }
        EXPECT_EQ(testing::difference(channels_last(made, true), right), "") << convolution_text(shape);
      }
  EXPECT_GE(seen, 12);
}

// Random inputs of a case, what is right for them, and its arguments: they and an output of NaN, as they lie.
struct HostRun {
  HostTensor right, made;
  std::vector<HostTensor> in, lying;
  std::vector<void*> args;
  bool last;
  HostRun(const ConvolutionCase& c, OpId op, bool last) : last(last) {
    for (const TypedShape& type : c.in(op, DType::f32)) {
      in.push_back(make_tensor(type.dtype, type.shape));
      for (int64_t i = 0; i < in.back().size(); ++i)
        in.back().set(i, philox::uniform(philox::bits(in.size(), 1, 1, static_cast<uint64_t>(i))) - 0.5);
      lying.push_back(last && type.shape.size() > 2 ? channels_last(in.back(), false) : in.back());
    }
    right = evaluate(c.graph(op, DType::f32), in)[0];
    made = make_tensor(right.dtype, right.shape);
    std::fill_n(made.data.data(), made.bytes(), std::byte{0xff});
    for (HostTensor& tensor : lying) args.push_back(tensor.data.data());
    args.push_back(made.data.data());
  }
  std::string difference() const {
    return testing::difference(last ? channels_last(made, true) : made, right);
  }
};

// Pixels moved by the kernel, on the host.
std::vector<float> moved(const PixelMove& move, const float* from) {
  std::vector<float> to(static_cast<size_t>(move.elements()), NAN);
  void* args[] = {const_cast<float*>(from), to.data()};
  run_on_host(move_pixels_source(move), "move_pixels((Lane*)a[0], (Lane*)a[1])", args, 2);
  return to;
}
// What a call of the product computes, in double.
std::vector<float> computed(const ConvolutionShape& shape, const ConvolutionProduct& p, void* const* args) {
  const ConvolutionPointers at = convolution_pointers(shape, args);
  const bool forward = shape.which == ConvolutionShape::Which::forward,
             weight = shape.which == ConvolutionShape::Which::weight;
  const auto *a = static_cast<const float*>(forward ? at.x : at.y),
             *b = static_cast<const float*>(weight ? at.x : at.weight);
  if (!shape.channels_last) std::swap(a, b);
  std::vector<float> new_a, new_b;
  if (p.a) new_a = moved(*p.a, a), a = new_a.data();
  if (p.b) new_b = moved(*p.b, b), b = new_b.data();
  const GemmOptions& g = p.gemm;
  std::vector<float> d(static_cast<size_t>(g.batch * g.m * g.n), NAN);
  for (int64_t batch = 0; batch < g.batch; ++batch)
    for (int64_t m = 0; m < g.m; ++m)
      for (int64_t n = 0; n < g.n; ++n) {
        const bool bias = g.epilogue == Epilogue::bias;
        double sum = bias ? static_cast<const float*>(at.bias)[n] : 0.0;
        for (int64_t k = 0; k < g.k; ++k)
          sum += static_cast<double>(a[batch * g.stride_a + (g.ta ? k * g.lda + m : m * g.lda + k)]) *
                 b[batch * g.stride_b + (g.tb ? n * g.ldb + k : k * g.ldb + n)];
        d[static_cast<size_t>(batch * g.stride_d + m * g.ldd + n)] = static_cast<float>(sum);
      }
  return p.spread ? moved(*p.spread, d.data()) : d;
}

TEST(CudaConvolution, ProductsComputeWindowsThatShareNoPixel) {
  std::map<std::string, int> seen;
  for (const ConvolutionCase& c : test::convolution_cases())
    for (OpId op : kConvolutionOps)
      for (bool last : {false, true}) {
        ConvolutionShape shape = shape_of(c, op, DType::f32);
        shape.channels_last = last;
        const auto product = convolution_product(shape);
        if (!product) continue;
        seen[str(op, shape.places() == 1 ? " point" : " patch", last ? " last" : " first")] += 1;
        HostRun run(c, op, last);
        const std::vector<float> got = computed(shape, *product, run.args.data());
        ASSERT_EQ(static_cast<int64_t>(got.size()), run.made.size()) << convolution_text(shape);
        for (int64_t i = 0; i < run.made.size(); ++i) run.made.set(i, got[static_cast<size_t>(i)]);
        EXPECT_EQ(run.difference(), "") << convolution_text(shape);
      }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"convolution patch last", 1},
                                              {"convolution point last", 2},
                                              {"convolution_grad_input patch first", 1},
                                              {"convolution_grad_input patch last", 1},
                                              {"convolution_grad_input point first", 1},
                                              {"convolution_grad_input point last", 2},
                                              {"convolution_grad_weight patch last", 1},
                                              {"convolution_grad_weight point last", 2}}));
}

TEST(CudaConvolution, ProductsOfATransposedConvolutionFollowItsShape) {
  ConvolutionShape s;
  s.which = ConvolutionShape::Which::input;
  s.n = 256, s.channels = 32, s.outputs = 64;
  s.spatial = {96, 96}, s.counts = {48, 48}, s.sizes = s.stride = {2, 2}, s.dilation = {1, 1},
  s.lo = s.hi = {0, 0};
  EXPECT_EQ(text(convolution_product(s)->gemm),
            "m=128 n=2304 k=64 f32>f32 A:[k,m]/128 B:[k,n]/2304 D:[m,n]/2304 batch=256(0,147456,294912)");
  s.channels_last = true;
  EXPECT_EQ(text(convolution_product(s)->gemm),
            "m=589824 n=128 k=64 f32>f32 A:[m,k]/64 B:[k,n]/128 D:[m,n]/128");
  s.stride = {1, 1};
  EXPECT_FALSE(convolution_product(s)) << "windows share pixels";
  s.stride = {2, 2}, s.lo = {1, 1};
  EXPECT_FALSE(convolution_product(s)) << "padding";
  s.lo = {0, 0}, s.dtype = DType::bf16;
  EXPECT_FALSE(convolution_product(s)) << "tensor cores";
}

TEST(CudaConvolution, AGradientOfTheInputIsAConvolutionWithTheMirroredWeight) {
  int seen = 0;
  for (const ConvolutionCase& c : test::convolution_cases())
    for (bool last : {false, true}) {
      ConvolutionShape shape = shape_of(c, ops::convolution_grad_input, DType::f32);
      shape.channels_last = last;
      const auto mirrored = mirrored_convolution(shape);
      if (!mirrored) continue;
      ++seen;
      HostRun run(c, ops::convolution_grad_input, last);
      std::vector<float> weight(static_cast<size_t>(shape.weights()), NAN);
      void* weight_args[] = {run.args[1], weight.data()};
      run_on_host(mirrored_weight_source(shape), "mirror_weight((float*)a[0], (float*)a[1])", weight_args, 2);
      void* args[] = {run.args[0], weight.data(), run.args[2], nullptr};
      run_on_host(convolution_source(*mirrored),
                  "convolution_element((T_t*)a[0], (T_t*)a[1], (T_t*)a[2], (T_t*)a[3])", args, 4);
      EXPECT_EQ(run.difference(), "") << convolution_text(shape);
    }
  EXPECT_EQ(seen, 6);
}

TEST(CudaConvolution, TheBiasGoesToItsChannel) {
  const ConvolutionCase c = test::convolution_cases()[3];
  const ConvolutionShape shape = shape_of(c, ops::convolution, DType::f32);
  std::vector<float> y(static_cast<size_t>(shape.n * shape.outputs * shape.windows()), 1.0f), bias;
  for (int64_t o = 0; o < shape.outputs; ++o) bias.push_back(static_cast<float>(o));
  void* args[] = {y.data(), bias.data()};
  run_on_host(channel_bias_source(shape), "channel_bias((T_t*)a[0], (T_t*)a[1])", args, 2);
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_EQ(y[i], 1.0f + static_cast<float>(i / static_cast<size_t>(shape.windows()) %
                                              static_cast<size_t>(shape.outputs)));
}

}  // namespace
}  // namespace lockstep::compiler::cuda
