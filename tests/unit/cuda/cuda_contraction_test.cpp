// From contractions to matrix products, exactly; and the kernels written by hand compile. No GPU needed.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "compiler/codegen/cuda/library/cublaslt.h"
#include "compiler/codegen/cuda/library/library.h"
#include "compiler/codegen/cuda/matmul/contraction_loop.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {
namespace {

using List = std::vector<int64_t>;

Node dot_node(const List& lb, const List& rb, const List& lc, const List& rc) {
  Node node;
  node.op = "dot";
  node.attrs = {{"lhs_batch", lb}, {"rhs_batch", rb}, {"lhs_contract", lc}, {"rhs_contract", rc}};
  return node;
}
Node linear_node() {
  Node node;
  node.op = "linear";
  return node;
}
size_t u(int64_t i) { return static_cast<size_t>(i); }

// Every index of a shape, in row-major order.
void each(const List& shape, const std::function<void(const List&)>& run) {
  List at(shape.size(), 0);
  int64_t all = numel(shape);
  for (int64_t i = 0; i < all; ++i) {
    run(at);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}
int64_t offset(const List& at, const List& strides) {
  int64_t out = 0;
  for (size_t d = 0; d < at.size(); ++d) out += at[d] * strides[d];
  return out;
}
List free_of(size_t rank, const List& batch, const List& contract) {
  List out;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
        std::find(contract.begin(), contract.end(), d) == contract.end())
      out.push_back(d);
  return out;
}

struct Case {
  Operand a, b, d;
  List lb, rb, lc, rc;
  std::vector<int64_t> pa, pb;  // storage
};
Shape out_shape(const Case& c) {
  Shape out;
  for (int64_t d : c.lb) out.push_back(c.a.shape[u(d)]);
  for (int64_t d : free_of(c.a.shape.size(), c.lb, c.lc)) out.push_back(c.a.shape[u(d)]);
  for (int64_t d : free_of(c.b.shape.size(), c.rb, c.rc)) out.push_back(c.b.shape[u(d)]);
  return out;
}
std::vector<int64_t> storage(const Operand& operand, std::mt19937& random) {
  int64_t span = 1;
  for (size_t i = 0; i < operand.shape.size(); ++i)
    span += std::max<int64_t>(0, operand.shape[i] - 1) * operand.strides[i];
  std::vector<int64_t> out(u(span));
  for (auto& x : out) x = static_cast<int64_t>(random() % 2001) - 1000;
  return out;
}

// By the definition of dot, index by index.
std::vector<int64_t> by_definition(const Case& c) {
  List af = free_of(c.a.shape.size(), c.lb, c.lc), bf = free_of(c.b.shape.size(), c.rb, c.rc), sums;
  for (int64_t d : c.lc) sums.push_back(c.a.shape[u(d)]);
  std::vector<int64_t> out;
  each(out_shape(c), [&](const List& at) {
    int64_t total = 0;
    each(sums, [&](const List& k) {
      List ia(c.a.shape.size(), 0), ib(c.b.shape.size(), 0);
      size_t next = 0;
      for (size_t i = 0; i < c.lb.size(); ++i) ia[u(c.lb[i])] = ib[u(c.rb[i])] = at[next++];
      for (int64_t d : af) ia[u(d)] = at[next++];
      for (int64_t d : bf) ib[u(d)] = at[next++];
      for (size_t i = 0; i < k.size(); ++i) ia[u(c.lc[i])] = ib[u(c.rc[i])] = k[i];
      total += c.pa[u(offset(ia, c.a.strides))] * c.pb[u(offset(ib, c.b.strides))];
    });
    out.push_back(total);
  });
  return out;
}

// By the plan: what the library or the kernel will read and write.
std::vector<int64_t> by_plan(const Case& c, const ContractionPlan& plan) {
  std::vector<int64_t> out(u(numel(out_shape(c))), INT64_MIN);
  if (plan.matrix) {
    const GemmOptions& g = plan.gemm;
    for (const auto& at : plan.at)
      for (int64_t i = 0; i < g.batch; ++i)
        for (int64_t m = 0; m < g.m; ++m)
          for (int64_t n = 0; n < g.n; ++n) {
            int64_t total = 0;
            for (int64_t k = 0; k < g.k; ++k)
              total += c.pa.at(u(at[0] + i * g.stride_a + (g.ta ? k * g.lda + m : m * g.lda + k))) *
                       c.pb.at(u(at[1] + i * g.stride_b + (g.tb ? n * g.ldb + k : k * g.ldb + n)));
            int64_t& to = out.at(u(at[2] + i * g.stride_d + m * g.ldd + n));
            EXPECT_EQ(to, INT64_MIN) << "written twice";
            to = total;
          }
    return out;
  }
  auto place = [](const OperandRole& role, int64_t flat) {
    int64_t at = 0;
    for (size_t i = role.sizes.size(); i-- > 0;)
      at += flat % role.sizes[i] * role.strides[i], flat /= role.sizes[i];
    return at;
  };
  for (int64_t i = 0; i < plan.batch; ++i)
    for (int64_t m = 0; m < plan.m; ++m)
      for (int64_t n = 0; n < plan.n; ++n) {
        int64_t total = 0;
        for (int64_t k = 0; k < plan.k; ++k)
          total += c.pa.at(u(place(plan.a.batch, i) + place(plan.a.free, m) + place(plan.a.contract, k))) *
                   c.pb.at(u(place(plan.b.batch, i) + place(plan.b.free, n) + place(plan.b.contract, k)));
        out.at(u((i * plan.m + m) * plan.n + n)) = total;
      }
  return out;
}

TEST(ContractionPlan, LinearIsOneProductWhateverTheLeadingDims) {
  auto plan = plan_contraction(linear_node(),
                               {dense_operand(DType::bf16, {4, 8, 16}), dense_operand(DType::bf16, {24, 16}),
                                dense_operand(DType::bf16, {24})},
                               {dense_operand(DType::bf16, {4, 8, 24})}, false);
  ASSERT_TRUE(plan.matrix) << plan.reason;
  GemmOptions want{.m = 32,
                   .n = 24,
                   .k = 16,
                   .ta = false,
                   .tb = true,
                   .lda = 16,
                   .ldb = 16,
                   .ldd = 24,
                   .in = DType::bf16,
                   .out = DType::bf16,
                   .epilogue = Epilogue::bias};
  EXPECT_EQ(plan.gemm, want) << text(plan.gemm);
  EXPECT_EQ(plan.at, (std::vector<std::array<int64_t, 3>>{{0, 0, 0}}));
  EXPECT_EQ(text(plan.gemm), "m=32 n=24 k=16 bf16>bf16 A:[m,k]/16 B:[n,k]/16 D:[m,n]/24 +bias");
}

// What autodiff makes of linear: dx = dot(dy, w), dw = dot(dy, x) over the leading dims.
TEST(ContractionPlan, GradientsOfLinearAreOneProductEach) {
  Operand dy = dense_operand(DType::f32, {4, 8, 24}), w = dense_operand(DType::f32, {24, 16}),
          x = dense_operand(DType::f32, {4, 8, 16});
  auto dx = plan_contraction(dot_node({}, {}, {2}, {0}), {dy, w}, {x}, true);
  ASSERT_TRUE(dx.matrix) << dx.reason;
  EXPECT_EQ(dx.gemm, (GemmOptions{.m = 32, .n = 16, .k = 24, .lda = 24, .ldb = 16, .ldd = 16, .tf32 = true}))
      << text(dx.gemm);
  auto dw = plan_contraction(dot_node({}, {}, {0, 1}, {0, 1}), {dy, x}, {w}, false);
  ASSERT_TRUE(dw.matrix) << dw.reason;
  EXPECT_EQ(dw.gemm, (GemmOptions{.m = 24, .n = 16, .k = 32, .ta = true, .lda = 24, .ldb = 16, .ldd = 16}))
      << text(dw.gemm);
}

TEST(ContractionPlan, BatchDimsThatDoNotNestBecomeLaunches) {
  // [B,T,H,D] x [B,S,H,D] over D with batch (B,H): the longer batch dim goes through strides.
  Operand q = dense_operand(DType::f32, {3, 5, 4, 8}), k = dense_operand(DType::f32, {3, 7, 4, 8});
  auto plan = plan_contraction(dot_node({0, 2}, {0, 2}, {3}, {3}), {q, k},
                               {dense_operand(DType::f32, {3, 4, 5, 7})}, false);
  ASSERT_TRUE(plan.matrix) << plan.reason;
  EXPECT_EQ(plan.gemm, (GemmOptions{.m = 5,
                                    .n = 7,
                                    .k = 8,
                                    .batch = 4,
                                    .tb = true,
                                    .lda = 32,
                                    .ldb = 32,
                                    .ldd = 7,
                                    .stride_a = 8,
                                    .stride_b = 8,
                                    .stride_d = 35,
                                    .alignment = 16}))
      << text(plan.gemm);
  EXPECT_EQ(plan.at, (std::vector<std::array<int64_t, 3>>{{0, 0, 0}, {160, 224, 140}, {320, 448, 280}}));
}

TEST(ContractionPlan, WhatHasNoLeadingDimNamesItsStrides) {
  Operand a{DType::f32, {4, 6}, {60, 2}}, b = dense_operand(DType::f32, {6, 5});
  auto plan =
      plan_contraction(dot_node({}, {}, {1}, {0}), {a, b}, {dense_operand(DType::f32, {4, 5})}, false);
  EXPECT_FALSE(plan.matrix);
  EXPECT_EQ(plan.reason, "left side: free [4] by strides [60], summed [6] by strides [2]");
  auto half = plan_contraction(dot_node({}, {}, {1}, {0}),
                               {dense_operand(DType::i32, {4, 6}), dense_operand(DType::i32, {6, 5})},
                               {dense_operand(DType::i32, {4, 5})}, false);
  EXPECT_EQ(half.reason, "no product of i32 in i32");
}

TEST(ContractionPlan, AlignmentIsWhatStridesAndOffsetsLeave) {
  auto make = [](const List& strides) {
    return plan_contraction(dot_node({}, {}, {1}, {0}),
                            {Operand{DType::bf16, {4, 8}, strides}, dense_operand(DType::bf16, {8, 8})},
                            {dense_operand(DType::bf16, {4, 8})}, false);
  };
  EXPECT_EQ(make({8, 1}).gemm.alignment, 16);   // dense
  EXPECT_EQ(make({24, 1}).gemm.alignment, 16);  // 48 bytes
  EXPECT_EQ(make({12, 1}).gemm.alignment, 8);
  EXPECT_EQ(make({9, 1}).gemm.alignment, 2);
  // Launches at 20 bytes times i: 4 bytes.
  auto plan =
      plan_contraction(dot_node({0, 2}, {0, 2}, {3}, {3}),
                       {dense_operand(DType::f32, {2, 1, 1, 5}), dense_operand(DType::f32, {2, 3, 1, 5})},
                       {dense_operand(DType::f32, {2, 1, 1, 3})}, false);
  EXPECT_EQ(plan.at.size(), 1u);
  plan = plan_contraction(dot_node({0, 2}, {0, 2}, {3}, {3}),
                          {dense_operand(DType::f32, {2, 1, 3, 5}), dense_operand(DType::f32, {2, 3, 3, 5})},
                          {dense_operand(DType::f32, {2, 3, 1, 3})}, false);
  EXPECT_EQ(plan.at.size(), 2u);
  EXPECT_EQ(plan.gemm.alignment, 4);
}

TEST(ContractionPlan, SamplesAndEdges) {
  struct Row {
    Shape a, b;
    List lb, rb, lc, rc;
  };
  std::mt19937 random(1);
  for (const Row& row :
       {Row{{3, 5}, {5, 7}, {}, {}, {1}, {0}}, Row{{2, 3, 1, 5}, {2, 7, 3, 5}, {0, 1}, {0, 2}, {3}, {3}},
        Row{{4, 3, 2}, {2, 5, 4}, {}, {}, {0, 2}, {2, 0}}, Row{{3}, {5}, {}, {}, {}, {}},
        Row{{1}, {1}, {}, {}, {0}, {0}}, Row{{7, 1}, {1, 9}, {}, {}, {1}, {0}},
        Row{{0, 5}, {5, 3}, {}, {}, {1}, {0}}, Row{{4, 0}, {0, 3}, {}, {}, {1}, {0}},
        Row{{6}, {6}, {}, {}, {0}, {0}}, Row{{6, 2}, {6, 3}, {0}, {0}, {}, {}}}) {
    Case c{dense_operand(DType::f32, row.a),
           dense_operand(DType::f32, row.b),
           {},
           row.lb,
           row.rb,
           row.lc,
           row.rc,
           {},
           {}};
    c.pa = storage(c.a, random), c.pb = storage(c.b, random);
    c.d = dense_operand(DType::f32, out_shape(c));
    auto plan = plan_contraction(dot_node(c.lb, c.rb, c.lc, c.rc), {c.a, c.b}, {c.d}, false);
    EXPECT_EQ(by_plan(c, plan), by_definition(c)) << str(row.a, row.b) << plan.reason;
  }
}

// Random dims in random roles, sizes 1 and odd, permuted and padded strides.
TEST(ContractionPlan, RandomContractionsAreExact) {
  std::mt19937 random(7);
  int matrices = 0, loops = 0;
  for (int round = 0; round < 400; ++round) {
    auto pick = [&](int from, int to) {
      return static_cast<int64_t>(from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1)));
    };
    Case c;
    struct Dim {
      int64_t size;
      int role;
    };
    std::vector<Dim> left, right;
    for (int role = 0; role < 2; ++role)
      for (int64_t i = pick(0, 2); i > 0; --i) {
        Dim dim{pick(1, 4), role};
        left.push_back(dim), right.push_back(dim);
      }
    for (int64_t i = pick(0, 2); i > 0; --i) left.push_back({pick(1, 5), 2});
    for (int64_t i = pick(0, 2); i > 0; --i) right.push_back({pick(1, 5), 2});
    auto side = [&](const std::vector<Dim>& dims, Operand& operand, List& batch, List& contract) {
      std::vector<size_t> order(dims.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      if (random() % 2) std::shuffle(order.begin(), order.end(), random);
      operand.dtype = DType::f32;
      std::vector<int64_t> where(dims.size());
      for (size_t i = 0; i < order.size(); ++i)
        where[order[i]] = static_cast<int64_t>(i), operand.shape.push_back(dims[order[i]].size);
      for (size_t i = 0; i < dims.size(); ++i)
        if (dims[i].role < 2) (dims[i].role == 0 ? batch : contract).push_back(where[i]);
      operand.strides = row_major_strides(operand.shape);
      if (random() % 3 == 0 && !operand.shape.empty()) {  // memory in another order, with gaps
        std::vector<size_t> memory(operand.shape.size());
        for (size_t i = 0; i < memory.size(); ++i) memory[i] = i;
        std::shuffle(memory.begin(), memory.end(), random);
        int64_t span = pick(1, 2);
        for (size_t d : memory) operand.strides[d] = span, span *= operand.shape[d] + pick(0, 1);
      }
    };
    side(left, c.a, c.lb, c.lc), side(right, c.b, c.rb, c.rc);
    c.pa = storage(c.a, random), c.pb = storage(c.b, random);
    c.d = dense_operand(DType::f32, out_shape(c));
    auto plan = plan_contraction(dot_node(c.lb, c.rb, c.lc, c.rc), {c.a, c.b}, {c.d}, false);
    ++(plan.matrix ? matrices : loops);
    EXPECT_EQ(plan.matrix, plan.reason.empty());
    EXPECT_EQ(by_plan(c, plan), by_definition(c)) << plan.reason << " " << text(plan.gemm);
  }
  EXPECT_GT(matrices, 100);
  EXPECT_GT(loops, 20);
}

TEST(CublasLt, TakesNoClusterOfTwoRowsForFewTiles) {
  constexpr int kAuto = 0, kOne = 2, kTwoRows = 3, kTwoColumns = 5;  // cublasLtClusterShape_t
  const std::vector<int> choices{kTwoRows, kAuto, kTwoColumns, kOne};
  GemmOptions o{.m = 768, .n = 768, .k = 16384, .lda = 768, .ldb = 768, .ldd = 768};
  EXPECT_EQ(preferred_choice(o, choices), 0u) << "not tf32";
  o.tf32 = true;
  EXPECT_EQ(preferred_choice(o, choices), 2u);
  EXPECT_EQ(preferred_choice(o, std::vector<int>{kTwoRows, kOne, kTwoColumns}), 1u);
  EXPECT_EQ(preferred_choice(o, std::vector<int>{kTwoRows, kAuto}), 0u);
  EXPECT_EQ(preferred_choice(o, std::vector<int>{kAuto, kOne}), 0u);
  EXPECT_EQ(preferred_choice(o, {}), 0u);
  o.m = 16384;
  EXPECT_EQ(preferred_choice(o, choices), 2u);
  o.n = 3072;
  EXPECT_EQ(preferred_choice(o, choices), 0u) << "many tiles";
}

TEST(CublasLt, NamesWhatCannotBeOpened) {
  try {
    open_cublaslt({"libno-such-blas.so.1"});
    FAIL();
  } catch (const UserError& error) {
    std::string what = error.what();
    EXPECT_NE(what.find("cuBLASLt cannot be opened (tried libno-such-blas.so.1)"), std::string::npos) << what;
    EXPECT_NE(what.find("libno-such-blas.so.1: cannot open shared object file"), std::string::npos) << what;
    EXPECT_NE(what.find("LD_LIBRARY_PATH"), std::string::npos) << what;
  }
}
TEST(CublasLt, NamesTheFunctionThatALibraryLacks) {
  try {
    open_cublaslt({"libm.so.6"});
    FAIL();
  } catch (const UserError& error) {
    std::string what = error.what();
    EXPECT_NE(what.find("has no function cublasLtGetVersion: it is too old"), std::string::npos) << what;
  }
}
TEST(CublasLt, Version) {
  try {
    cublaslt();
  } catch (const UserError& error) { GTEST_SKIP() << error.what(); }
  EXPECT_EQ(cublaslt_version().find("1"), 0u) << cublaslt_version();
}

TEST(HandWrittenKernels, Compile) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8,
                      DType::u16, DType::u32, DType::u64}) {
    EXPECT_FALSE(compile_cubin(row_sums_source(dtype), "sm_90").empty()) << name(dtype);
    EXPECT_FALSE(compile_cubin(contraction_loop_source(dtype, dtype), "sm_90").empty()) << name(dtype);
  }
  for (DType dtype : {DType::bf16, DType::f16})
    EXPECT_FALSE(compile_cubin(contraction_loop_source(dtype, DType::f32), "sm_90").empty());
  for (DType dtype : {DType::f32, DType::f64})
    EXPECT_FALSE(compile_cubin(bias_source(dtype), "sm_90").empty());
  EXPECT_FALSE(compile_cubin(row_sums_source(DType::f32), "sm_80").empty());
}

}  // namespace
}  // namespace lockstep::compiler::cuda
