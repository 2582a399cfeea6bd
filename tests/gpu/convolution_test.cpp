// Convolution on a GPU against a reference in double: cuDNN and the room's own kernel; equal bits in a second
// run and in captured work.
#include "compiler/codegen/cuda/convolution/convolution.h"

#include <map>
#include <string>

#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/matmul/bf16x6_tiles.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "tests/gpu/library_case.h"
#include "tests/unit/compiler/convolution_case.h"

namespace lockstep::compiler::cuda {
namespace {
using test::ConvolutionCase;

class GpuConvolution : public LibraryCase {
 protected:
  // Element i of a tensor, row-major, lies there.
  static int64_t place(const Shape& shape, bool last, int64_t i) {
    if (!last || shape.size() < 3) return i;
    const auto strides = channels_last_strides(shape);
    int64_t at = 0;
    for (size_t d = shape.size(); d-- > 0; i /= shape[d]) at += i % shape[d] * strides[d];
    return at;
  }
  HostTensor on_host(const Array& array, const Shape& shape, bool last) const {
    HostTensor made = make_tensor(DType::f64, shape);
    for (int64_t i = 0; i < made.size(); ++i) made.set(i, array.at(place(shape, last, i)));
    return made;
  }
  static Operand lying(Operand operand, bool last) {
    if (last && operand.shape.size() > 2) operand.strides = channels_last_strides(operand.shape);
    return operand;
  }
  std::unique_ptr<LibraryCall> call_of(const ConvolutionCase& c, OpId op, DType dtype, bool last) {
    std::vector<Operand> in;
    for (const Operand& operand : c.operands(op, dtype)) in.push_back(lying(operand, last));
    return make_convolution(*device_, c.graph(op, dtype).nodes[0], in, {lying(c.result(op, dtype), last)},
                            {});
  }
  // Runs `call` on random inputs and compares; sums of `terms` products of numbers up to 1.
  void expect_right(const LibraryCall& call, const ConvolutionCase& c, OpId op, DType dtype, double step,
                    bool last = false) {
    SCOPED_TRACE(call.algorithm());
    std::vector<Array> in;
    std::vector<HostTensor> wide;
    for (const TypedShape& type : c.in(op, dtype)) {
      in.push_back(random(dtype, numel(type.shape)));
      wide.push_back(on_host(in.back(), type.shape, last));
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
      if (!(std::abs(got.at(place(out.shape, last, i)) - right.at(i)) <= step * std::max(1.0, largest))) {
        ADD_FAILURE() << "element " << i << " is " << got.at(place(out.shape, last, i)) << ", right is "
                      << right.at(i);
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
      for (OpId op : test::kConvolutionOps)
        for (bool last : {false, true})
          expect_right(*call_of(c, op, dtype, last), c, op, dtype, step_of(dtype), last);
}

TEST_F(GpuConvolution, TheOwnKernelEqualsTheReference) {
  for (const ConvolutionCase& c : test::convolution_cases())
    for (DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (OpId op : test::kConvolutionOps) {
        const Graph graph = c.graph(op, dtype);
        ConvolutionShape shape =
            convolution_shape(graph.nodes[0], c.operands(op, dtype), {c.result(op, dtype)});
        for (bool last : {false, true}) {
          shape.channels_last = last;
          expect_right(*make_own_convolution(*device_, shape, "asked", ""), c, op, dtype, step_of(dtype),
                       last);
        }
      }
}

// In plain f32 products and mirrored convolutions are what runs.
TEST_F(GpuConvolution, ProductsAndMirroredConvolutionsRun) {
  int products = 0, mirrored = 0;
  for (const ConvolutionCase& c : test::convolution_cases())
    for (OpId op : test::kConvolutionOps)
      for (bool last : {false, true}) {
        const auto call = call_of(c, op, DType::f32, last);
        const std::string algorithm = call->algorithm();
        if (algorithm.rfind("product", 0) == 0) ++products;
        if (algorithm.find(" mirrored ") != std::string::npos) ++mirrored;
      }
  EXPECT_EQ(products, 11);
  EXPECT_EQ(mirrored, 2);
}

// Few and odd channels, a stride that leaves a rest, dilations, padding, several tiles and pieces of sums.
TEST_F(GpuConvolution, ProductsOfBf16OnHopperEqualTheReference) {
  const std::string why = lacks_bf16x6(device_->properties());
  if (!why.empty()) GTEST_SKIP() << why;
  std::vector<ConvolutionCase> cases = test::convolution_cases();
  cases.insert(cases.end(), {{{3, 16, 10, 9}, {5, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true},
                             {{2, 72, 13, 11}, {40, 72, 3, 3}, {2, 1}, {1, 1}, {1, 1}, 1, false},
                             {{2, 8, 33, 30}, {24, 8, 5, 3}, {1, 1}, {4, 1}, {2, 1}, 1, true},
                             {{1, 72, 24, 19}, {136, 72, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true},
                             {{5, 16, 20, 18}, {72, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true},
                             {{3, 16, 6, 6}, {72, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true},
                             {{4, 32, 24, 24}, {32, 32, 3, 3}, {3, 2}, {0, 1}, {1, 1}, 1, false},
                             {{2, 64, 9, 9}, {64, 64, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, true}});
  std::map<std::string, int> ran;
  int pieces = 0, cut = 0;
  for (const ConvolutionCase& c : cases)
    for (OpId op : test::kConvolutionOps) {
      ConvolutionShape shape = convolution_shape(c.graph(op, DType::f32).nodes[0], c.operands(op, DType::f32),
                                                 {c.result(op, DType::f32)});
      shape.channels_last = true;
      if (!unfit_for_bf16x6(shape, device_->properties()).empty()) continue;
      for (const int64_t most_parts : {kBf16x6Pixels, 6 * c.x[1] * numel(shape.spatial) * 2}) {
        const auto call = make_bf16x6_convolution(*device_, shape, "", most_parts);
        expect_right(*call, c, op, DType::f32, 1e-6, true);
        if (most_parts == kBf16x6Pixels && call->algorithm().find("pieces=1 ") == std::string::npos) ++pieces;
        if (call->algorithm().find(str(" by ", shape.n, " ")) == std::string::npos) ++cut;
      }
      ++ran[std::string(op.name())];
    }
  EXPECT_EQ(ran["convolution"], 11);
  EXPECT_EQ(ran["convolution_grad_input"], 7);
  EXPECT_EQ(ran["convolution_grad_weight"], 11);
  EXPECT_GT(pieces, 3);
  EXPECT_GT(cut, 3) << "samples some at a time";
}

// What a residual net runs: cuDNN or a product takes each of them, in f32 without TF32 and in bf16.
TEST_F(GpuConvolution, ShapesOfResnet18RunOnLibraries) {
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
        auto call = call_of(c, op, dtype, dtype == DType::bf16);
        EXPECT_NE(call->algorithm().find("deterministic"), std::string::npos) << call->algorithm();
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
