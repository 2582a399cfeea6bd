// Library calls in bf16 and f16 on shapes of several blocks: operands that lie transposed, long sums, odd
// sizes, sums of no terms.
#include <gtest/gtest.h>

#include "compiler/reference/evaluate.h"
#include "core/ops/apply.h"
#include "tests/support/tolerance.h"
#include "tests/sweep/backends.h"
#include "tests/sweep/cases.h"

namespace lockstep::sweep {
namespace {

using List = std::vector<int64_t>;
Attrs contract(int64_t lhs, int64_t rhs) {
  return {
      {"lhs_batch", List{}}, {"rhs_batch", List{}}, {"lhs_contract", List{lhs}}, {"rhs_contract", List{rhs}}};
}
Attrs batched(int64_t lhs, int64_t rhs) {
  return {{"lhs_batch", List{0}},
          {"rhs_batch", List{0}},
          {"lhs_contract", List{lhs}},
          {"rhs_contract", List{rhs}}};
}

struct Call {
  OpId op;
  std::vector<TypedShape> in;
  Attrs attrs;
};
std::vector<Call> calls(DType dtype) {
  auto t = [&](Shape shape) { return TypedShape{dtype, std::move(shape)}; };
  Attrs causal{{"causal", true}, {"scale", 0.25}}, open{{"causal", false}, {"scale", 0.25}};
  std::vector<Call> out{
      {"linear", {t({5, 37, 130}), t({259, 130}), t({259})}, {}},
      {"linear", {t({300, 1100}), t({70, 1100})}, {}},
      {"dot", {t({1100, 130}), t({1100, 75})}, contract(0, 0)},
      {"dot", {t({130, 300}), t({300, 49})}, contract(1, 0)},
      {"dot", {t({300, 130}), t({49, 300})}, contract(0, 1)},
      {"dot", {t({3, 60, 50}), t({3, 40, 50})}, batched(2, 2)},
      {"dot", {t({9, 50, 60}), t({9, 50, 1})}, batched(1, 1)},
      {"dot", {t({1, 1}), t({1, 1})}, contract(1, 0)},
      {"embedding_grad", {t({600, 70}), {DType::i32, {600}}}, {{"rows", int64_t{4}}}},
      {"index_add", {{DType::i32, {7}}, t({7, 3})}, {{"rows", int64_t{5}}}},
  };
  for (const Attrs& attrs : {causal, open})
    for (auto [heads, kv_heads] : {std::pair<int64_t, int64_t>{4, 2}, {3, 3}}) {
      TypedShape q = t({2, 131, heads, 24}), k = t({2, 131, kv_heads, 24});
      out.push_back({"sdpa", {q, k, k}, attrs});
      out.push_back({"sdpa_grad", {q, q, k, k, q, {DType::f32, {2, heads, 131}}}, attrs});
    }
  return out;
}

TEST(Halves, LibraryCallsOfSeveralBlocks) {
  std::vector<Graph> graphs;
  std::vector<std::vector<compiler::HostTensor>> inputs;
  std::vector<std::string> titles;
  for (DType dtype : {DType::bf16, DType::f16})
    for (const Call& call : calls(dtype)) {
      auto builder = std::make_shared<Builder>();
      auto in = add_inputs(builder, call.in);
      titles.emplace_back(call.op.name());
      for (const auto& type : call.in) titles.back() += " " + shape_text(type.dtype, type.shape);
      for (const Tensor& out : apply(call.op, in, call.attrs))
        builder->graph.add_output(OutputKind::value, str("out", out.id()), out.id());
      graphs.push_back(builder->graph);
      Sample range;
      range.lo = -1, range.hi = 1;
      range.int_lo = 0, range.int_hi = 4;
      inputs.emplace_back();
      for (size_t i = 0; i < call.in.size(); ++i) {
        inputs.back().push_back(random_tensor(call.in[i], range, 31 * i + 1));
        if (call.op == "sdpa_grad" && i == 5)  // log-sum-exp near that of 131 keys
          for (int64_t k = 0; k < inputs.back()[i].size(); ++k)
            inputs.back()[i].set(k, inputs.back()[i].at(k) + 5.0);
      }
    }
  for (const Backend& backend : backends()) {
    backend.prepare(graphs);
    for (size_t g = 0; g < graphs.size(); ++g) {
      auto right = compiler::evaluate(graphs[g], inputs[g]), given = backend.run(g, inputs[g]);
      ASSERT_EQ(given.size(), right.size());
      // One rounding of an f32 sum: a unit in the last place of the result, and a little for the sum itself.
      // Attention on CUDA is cuDNN's, and that of bf16 on the CPU is the processor's: their matrix units take
      // the probabilities (backward: the gradients of the scores too) in the half type, so that there the
      // inner values are rounded as well as the result, and the dtype table decides.
      const bool units = backend.name.rfind("cuda", 0) == 0 || titles[g].find("bf16") != std::string::npos,
                 inner = units && titles[g].rfind("sdpa", 0) == 0;
      for (size_t o = 0; o < right.size(); ++o) {
        const DType dtype = right[o].dtype;
        double unit = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 1e-5;
        testing::Tolerance allowed =
            inner && dtype != DType::f32 ? testing::tolerance(dtype) : testing::Tolerance{unit, 2e-5};
        EXPECT_EQ(testing::difference(given[o], right[o], allowed), "")
            << backend.name << ": " << titles[g] << ": output " << o;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::sweep
