// Convolution on a GPU against a reference in double: cuDNN and the room's own kernel; equal bits in a second
// run and in captured work.
#include "compiler/codegen/cuda/convolution.h"

#include "compiler/codegen/cuda/library.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "tests/gpu/library_case.h"
#include "tests/unit/convolution_case.h"

namespace lockstep::compiler::cuda {
namespace {
using test::ConvolutionCase;

class GpuConvolution : public LibraryCase {
 protected:
  HostTensor on_host(const Array& array, const Shape& shape) const {
    HostTensor made = make_tensor(DType::f64, shape);
    for (int64_t i = 0; i < made.size(); ++i) made.set(i, array.at(i));
    return made;
  }
  // Runs `call` on random inputs and compares; sums of `terms` products of numbers up to 1.
  void expect_right(const LibraryCall& call, const ConvolutionCase& c, OpId op, DType dtype, double step) {
    SCOPED_TRACE(call.algorithm());
    std::vector<Array> in;
    std::vector<HostTensor> wide;
    for (const TypedShape& type : c.in(op, dtype)) {
      in.push_back(random(dtype, numel(type.shape)));
      wide.push_back(on_host(in.back(), type.shape));
    }
    std::vector<const Array*> pointers;
    for (const Array& array : in) pointers.push_back(&array);
    const TypedShape out = c.out(op, dtype);
    Array got = run(call, pointers, dtype, numel(out.shape));
    const HostTensor right = evaluate(c.graph(op, DType::f64), wide)[0];
    double largest = 0;
    for (int64_t i = 0; i < right.size(); ++i) largest = std::max(largest, std::abs(right.at(i)));
    int wrong = 0;
    for (int64_t i = 0; i < right.size() && wrong < 3; ++i)
      if (!(std::abs(got.at(i) - right.at(i)) <= step * std::max(1.0, largest))) {
        ADD_FAILURE() << "element " << i << " is " << got.at(i) << ", right is " << right.at(i);
        ++wrong;
      }
  }
  static double step_of(DType dtype) {
    return dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 1e-3 : 8e-3;
  }
};

TEST_F(GpuConvolution, EqualsTheReference) {
  for (const ConvolutionCase& c : test::convolution_cases())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
      for (OpId op : test::kConvolutionOps) {
        const Graph graph = c.graph(op, dtype);
        auto call =
            make_convolution(*device_, graph.nodes[0], c.operands(op, dtype), {c.result(op, dtype)}, {});
        expect_right(*call, c, op, dtype, step_of(dtype));
      }
}

TEST_F(GpuConvolution, TheOwnKernelEqualsTheReference) {
  for (const ConvolutionCase& c : test::convolution_cases())
    for (DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (OpId op : test::kConvolutionOps) {
        const Graph graph = c.graph(op, dtype);
        const ConvolutionShape shape =
            convolution_shape(graph.nodes[0], c.operands(op, dtype), {c.result(op, dtype)});
        expect_right(*make_own_convolution(*device_, shape, "asked", ""), c, op, dtype, step_of(dtype));
      }
}

// What a residual net runs: cuDNN takes each of them, in f32 without TF32 and in bf16.
TEST_F(GpuConvolution, ShapesOfResnet18RunOnCudnn) {
  for (auto [channels, outputs, size, kernel, stride] :
       std::vector<std::array<int64_t, 5>>{{3, 64, 96, 7, 2},
                                           {64, 64, 24, 3, 1},
                                           {64, 128, 24, 3, 2},
                                           {64, 128, 24, 1, 2},
                                           {256, 256, 6, 3, 1},
                                           {512, 512, 3, 3, 1}}) {
    const int64_t padding = kernel / 2;
    const ConvolutionCase c{{8, channels, size, size},
                            {outputs, channels, kernel, kernel},
                            {stride, stride},
                            {padding, padding},
                            {1, 1},
                            1,
                            false};
    for (DType dtype : {DType::f32, DType::bf16})
      for (OpId op : test::kConvolutionOps) {
        const Graph graph = c.graph(op, dtype);
        auto call =
            make_convolution(*device_, graph.nodes[0], c.operands(op, dtype), {c.result(op, dtype)}, {});
        EXPECT_EQ(call->algorithm().rfind("cuDNN", 0), 0u) << call->algorithm();
        std::vector<Array> in;
        std::vector<const Array*> pointers;
        for (const TypedShape& type : c.in(op, dtype)) in.push_back(random(dtype, numel(type.shape)));
        for (const Array& array : in) pointers.push_back(&array);
        run(*call, pointers, dtype, numel(c.out(op, dtype).shape));  // twice, with equal bits
      }
  }
}

}  // namespace
}  // namespace lockstep::compiler::cuda
