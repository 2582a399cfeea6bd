// Which products CUDA's rule of product_rows pads, by shapes of models that people know. No GPU needed.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/codegen/cuda/library/library.h"
#include "compiler/lower/pad_products.h"
#include "core/functions/functions.h"

namespace lockstep::compiler::cuda {
namespace {

struct Layer {
  int64_t rows, in, out;
};

// y = x W^T and dx of `steps` inputs; of one input dw, too.
Graph products(DType dtype, Layer layer, int steps = 1) {
  auto builder = std::make_shared<Builder>();
  auto input = [&](const std::string& name, const Shape& shape) {
    return Tensor(builder, builder->graph.add_input(InputKind::value, name, dtype, shape));
  };
  auto output = [&](const std::string& name, Tensor made) {
    builder->graph.add_output(OutputKind::value, name, made.id());
  };
  auto dot = [](Tensor a, Tensor b, int64_t of_a) {
    const std::vector<int64_t> none;
    return apply1(ops::dot, {a, b},
                  {{"lhs_batch", none},
                   {"rhs_batch", none},
                   {"lhs_contract", std::vector<int64_t>{of_a}},
                   {"rhs_contract", std::vector<int64_t>{0}}});
  };
  const Tensor w = input("w", {layer.out, layer.in});
  for (int i = 0; i < steps; ++i) {
    const Tensor x = input(str("x", i), {layer.rows, layer.in}),
                 dy = input(str("dy", i), {layer.rows, layer.out});
    output(str("y", i), apply1(ops::linear, {x, w}));
    output(str("dx", i), dot(dy, w, 1));
    if (steps == 1) output("dw", dot(dy, x, 0));
  }
  return builder->graph;
}
// Which of them are padded: "y0 dx0 dw".
std::string padded(const Graph& plain, bool tf32 = false) {
  TargetOptions options;
  options.tf32 = tf32;
  const Graph graph = with_padded_products(plain, [&](DType type) { return product_rows(type, options); });
  std::string out;
  for (size_t i = 0; i < plain.outputs.size(); ++i) {
    const Node& before = plain.producer(plain.outputs[i].value);
    const Node& last = graph.producer(graph.outputs[i].value);
    const Node& after = last.op == ops::slice ? graph.producer(last.inputs[0]) : last;
    bool same = graph[after.outputs[0]].shape == plain[before.outputs[0]].shape;
    for (size_t k = 0; k < before.inputs.size(); ++k)
      same = same && graph[after.inputs[k]].shape == plain[before.inputs[k]].shape;
    if (!same) out += str(out.empty() ? "" : " ", plain.outputs[i].name);
  }
  return out;
}
std::string padded(DType dtype, Layer layer, bool tf32 = false) {
  return padded(products(dtype, layer), tf32);
}

constexpr Layer kHeadOfBert{16384, 768, 30522}, kHeadOfGpt2{32768, 768, 50257},
    kHeadOfLstm{16384, 650, 10000}, kStepOfLstm{128, 650, 2600};

TEST(ProductRows, PadsProductsOfAwkwardVocabulariesAndWidths) {
  for (DType dtype : {DType::bf16, DType::f16})
    for (const Layer& layer : {kHeadOfBert, kHeadOfGpt2, kHeadOfLstm, Layer{16384, 650, 2600},
                               Layer{512, 768, 50257}, Layer{4096, 1111, 999}})
      EXPECT_EQ(padded(dtype, layer), "y0 dx0 dw") << name(dtype) << " " << layer.in << " " << layer.out;
  for (const Layer& layer : {kHeadOfBert, kHeadOfGpt2, kHeadOfLstm})
    EXPECT_EQ(padded(DType::f32, layer, true), "y0 dx0 dw") << layer.in << " " << layer.out;
}

TEST(ProductRows, LeavesWhatGainsNothingOrIsWhole) {
  for (DType dtype : {DType::bf16, DType::f16})
    for (const Layer& layer :
         {Layer{16384, 768, 50304}, Layer{256, 384, 1000}, Layer{65536, 64, 8},  // whole
          Layer{512, 512, 10}, Layer{65536, 768, 2}, Layer{64, 33, 65},          // small, or of few flops
          Layer{1, 768, 50257}, Layer{16384, 27, 27}})                           // a byte
      EXPECT_EQ(padded(dtype, layer), "") << name(dtype) << " " << layer.in << " " << layer.out;
  for (const Layer& layer : {kHeadOfBert, kHeadOfLstm}) {
    EXPECT_EQ(padded(DType::f32, layer), "") << "fp32 rounds nothing to TF32: no tensor cores";
    EXPECT_EQ(padded(DType::f64, layer), "");
  }
}

// A weight is padded once for all steps, each of which is a third of what fills the device.
TEST(ProductRows, PadsStepsOfAnLstmForTheirShareOfTheDevice) {
  const int steps = 127;
  std::string all, dx;
  for (int i = 0; i < steps; ++i)
    all += str(i ? " " : "", "y", i, " dx", i), dx += str(i ? " " : "", "dx", i);
  EXPECT_EQ(padded(products(DType::bf16, kStepOfLstm, steps)), all);
  EXPECT_EQ(padded(products(DType::bf16, kStepOfLstm, 3)), "dx0 dx1 dx2");
  EXPECT_EQ(padded(products(DType::bf16, kStepOfLstm, 2)), "");
  // Of few rows y gains less than the copy of its own operand costs; dx needs none.
  EXPECT_EQ(padded(products(DType::bf16, {16, 650, 2600}, steps)), dx);
}

}  // namespace
}  // namespace lockstep::compiler::cuda
