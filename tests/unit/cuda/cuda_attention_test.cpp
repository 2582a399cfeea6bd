// Attention of the CUDA target without a GPU: pieces of a call, refusals, kernels through NVRTC, and the
// kernels' arithmetic on the host.
#include <gtest/gtest.h>

#include <set>

#include "compiler/codegen/cuda/attention/attention.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/base/error.h"
#include "tests/unit/compiler/attention_case.h"
#include "tests/unit/cuda/cuda_on_host.h"

namespace lockstep::compiler::cuda {
namespace {
using test::AttentionBlock;
using test::AttentionCase;

AttentionShape bench_shape(int64_t batch, int64_t heads, int64_t kv_heads, int64_t tokens, int64_t size) {
  AttentionShape s;
  s.dtype = DType::bf16, s.backward = true, s.batch = batch, s.heads = heads, s.kv_heads = kv_heads,
  s.size = size;
  s.queries = s.keys = tokens;
  s.q = s.k = s.v = s.o = s.grad = s.dq = s.dk = s.dv = {tokens * heads * size, heads * size, size};
  return s;
}
std::string cuts(const AttentionShape& shape, int64_t cap) {
  std::string text;
  for (const AttentionPiece& p : cut_attention(shape, cap))
    text += str("[", p.batch, "+", p.batches, " ", p.kv_head, "+", p.kv_heads, "]");
  return text;
}
template <class Run>
std::string user_error(Run run) {
  try {
    run();
  } catch (const UserError& error) { return error.what(); }
  return "nothing was thrown";
}

TEST(CudaAttention, ScoresOfADeterministicBackwardPassGrowWithTheSquareOfTheLength) {
  EXPECT_EQ(score_bytes(bench_shape(16, 12, 12, 1024, 64)), int64_t{16} * 12 * 1024 * 1024 * 2);
  EXPECT_EQ(score_bytes(bench_shape(2, 16, 16, 8192, 128)), int64_t{2} * 16 * 8192 * 8192 * 2);
  EXPECT_EQ(score_bytes(bench_shape(2, 8, 2, 100, 64)), 2 * 8 * 128 * 128 * 2);
  EXPECT_EQ(score_bytes(bench_shape(1, 2, 2, 7, 16)), 2 * 64 * 128 * 2);
}

TEST(CudaAttention, ScoresTakeAtMostOnePartOf32OfTheDevice) {
  EXPECT_EQ(score_cap(int64_t{24} << 30), kLeastScoreCap);
  EXPECT_EQ(score_cap(int64_t{80} << 30), int64_t{80} << 25);
  EXPECT_EQ(score_cap(int64_t{141} << 30), kMostScoreCap);
}

TEST(CudaAttention, PiecesStayBelowTheCapAndCoverEverything) {
  EXPECT_EQ(cuts(bench_shape(16, 12, 12, 1024, 64), kLeastScoreCap), "[0+16 0+12]");
  EXPECT_EQ(cuts(bench_shape(64, 12, 12, 1024, 64), kLeastScoreCap), "[0+32 0+12][32+32 0+12]");
  EXPECT_EQ(cuts(bench_shape(2, 16, 16, 8192, 128), kLeastScoreCap), "[0+1 0+8][0+1 8+8][1+1 0+8][1+1 8+8]");
  EXPECT_EQ(cuts(bench_shape(7, 12, 12, 1024, 64), 3 * 12 * 1024 * 1024 * 2),
            "[0+3 0+12][3+2 0+12][5+2 0+12]");
  EXPECT_EQ(cuts(bench_shape(1, 6, 3, 1024, 64), 1), "[0+1 0+1][0+1 1+1][0+1 2+1]");  // one key head at least
  EXPECT_EQ(cuts(bench_shape(0, 6, 3, 1024, 64), 1), "[0+0 0+3]");
  AttentionShape shape = bench_shape(3, 10, 5, 200, 64);
  for (int64_t cap = 1; cap < 2 * score_bytes(shape); cap *= 3) {
    std::vector<int> seen(15);
    for (const AttentionPiece& p : cut_attention(shape, cap)) {
      if (p.kv_heads > 1) { EXPECT_LE(score_bytes(shape_of_piece(shape, p)), cap); }
      for (int64_t b = p.batch; b < p.batch + p.batches; ++b)
        for (int64_t h = p.kv_head; h < p.kv_head + p.kv_heads; ++h) ++seen[static_cast<size_t>(b * 5 + h)];
    }
    EXPECT_EQ(seen, std::vector<int>(15, 1)) << cap;
  }
}

TEST(CudaAttention, APieceBeginsAtItsBatchAndHead) {
  AttentionShape shape = bench_shape(3, 10, 5, 200, 64);
  AttentionPointers p;
  auto at = [](int64_t bytes) { return reinterpret_cast<void*>(int64_t{1} << 40 | bytes); };
  p.q = p.k = p.v = p.o = p.lse = p.grad = p.dq = p.dk = p.dv = at(0);
  AttentionPointers q = pointers_of_piece(shape, {2, 1, 3, 2}, p);
  int64_t batch = 200 * 10 * 64;
  for (void* x : {q.q, q.o, q.grad, q.dq}) EXPECT_EQ(x, at((2 * batch + 6 * 64) * 2));
  for (void* x : {q.k, q.v, q.dk, q.dv}) EXPECT_EQ(x, at((2 * batch + 3 * 64) * 2));
  EXPECT_EQ(q.lse, at((2 * 10 + 6) * 200 * 4));
  EXPECT_EQ(shape_of_piece(shape, {2, 1, 3, 2}).heads, 4);
}

TEST(CudaAttention, StridesOfSizeOneDimsArePacked) {
  AttentionCase c{
      .dtype = DType::bf16, .batch = 1, .queries = 1, .keys = 1, .heads = 1, .kv_heads = 1, .size = 8};
  AttentionBlock block(c);
  std::vector<Operand> in = block.in(false), out = block.out(false);
  in[0].strides = {3, 5, 7, 1};
  AttentionShape shape = attention_shape(c.node(false), in, out);
  EXPECT_EQ(shape.q.batch, 8);
  EXPECT_EQ(shape.q.token, 8);
  EXPECT_EQ(shape.q.head, 8);
}

TEST(CudaAttention, ProductsTakeWhatTheyCanAndSayWhyNot) {
  const int64_t cap = int64_t{1} << 30;
  EXPECT_EQ(unfit_for_products(bench_shape(128, 8, 8, 128, 64), cap, false), "");
  EXPECT_EQ(unfit_for_products(bench_shape(128, 8, 2, 128, 64), cap, false), "8 heads share 2 key heads");
  EXPECT_EQ(unfit_for_products(bench_shape(128, 8, 8, 128, 20), cap, false),
            "head size 20 is no multiple of 16 bytes");
  EXPECT_EQ(unfit_for_products(bench_shape(128, 8, 8, 128, 64), 1000, false),
            "the scores of one head take 196608 bytes");
  EXPECT_EQ(unfit_for_products(bench_shape(1, 1, 1, 16, 64), cap, false), "it is small");
  AttentionShape shape = bench_shape(128, 8, 8, 128, 64);
  shape.dtype = DType::f64;
  EXPECT_EQ(unfit_for_products(shape, cap, false), "f64");
  shape.dtype = DType::f32;  // operands of products lie where the scores and their gradients do
  EXPECT_EQ(product_bytes(shape), 128 * 128 * 8);
  EXPECT_EQ(unfit_for_products(shape, cap, false), "");
  shape.reads.causal = true;
  EXPECT_EQ(unfit_for_products(shape, cap, false), "causal in f32");
  EXPECT_EQ(unfit_for_products(shape, cap, true), "");
  shape.reads.causal = false;
  shape.dtype = DType::bf16;
  EXPECT_EQ(product_bytes(shape), 128 * 128 * 12);
  EXPECT_EQ(cut_attention(shape, product_bytes(shape), product_bytes(shape) * 8 * 5).size(), 26u);
}

TEST(CudaAttention, RefusalsNameTheThingBothValuesAndTheWayOut) {
  AttentionShape shape = bench_shape(1, 1, 1, 64, 257);
  shape.dtype = DType::f32;
  EXPECT_EQ(
      user_error([&] { attention_tiles(shape, 232448); }),
      "attention with head size 257 on CUDA: head sizes up to 256 are supported; use more, smaller heads");
  shape.size = 256, shape.dtype = DType::f64;
  EXPECT_EQ(user_error([&] { attention_tiles(shape, 101376); }),
            "attention of f64 with head size 256 needs 135936 bytes of shared memory per block; this device "
            "has 101376. Use f32 or a "
            "smaller head size");
  std::string text = user_error([] { open_cudnn({"libnone.so.9", "/nowhere/libnone.so.9"}); });
  EXPECT_NE(text.find("attention in bf16 and f16 on a GPU needs cuDNN 9, and none of libnone.so.9, "
                      "/nowhere/libnone.so.9 can be opened: "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Install cuDNN 9 for this CUDA version, or add its folder to LD_LIBRARY_PATH"),
            std::string::npos)
      << text;
}

// Of a dtype and sizes of heads; a test for each few, since NVRTC takes seconds for a source.
void compile_kernels_of(DType dtype, const std::vector<int64_t>& sizes) {
  std::set<std::string> sources;  // some shapes share theirs
  for (int64_t size : sizes)
    for (bool backward : {false, true}) {
      AttentionShape shape = bench_shape(1, 1, 1, 64, size);
      shape.dtype = dtype, shape.backward = backward, shape.reads.causal = dtype != DType::f64;
      auto add = [&] {
        sources.insert(tiled_attention(shape, 232448).source);
        if (unfit_for_tensor_cores(shape, 232448).empty())
          for (bool tf32 : {false, true}) sources.insert(tensor_attention(shape, tf32).source);
      };
      add();
      shape.reads.window = 9;
      shape.reads.lengths = shape.reads.documents = shape.reads.mask = shape.reads.bias = 1;
      shape.reads.bias_gradient = backward;
      add();
      for (int64_t keys : {64, 1024, 1025}) {
        shape.keys = keys;
        sources.insert(attention_rows_source(shape));
      }
    }
  for (const std::string& source : sources) EXPECT_GT(compile_cubin(source, "sm_90").size(), 1000u);
}

class CudaAttentionCompiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  }
};
TEST_F(CudaAttentionCompiles, EveryKernelOfSmallHeads) { compile_kernels_of(DType::f32, {1, 64}); }
TEST_F(CudaAttentionCompiles, EveryKernelOfLargeHeads) { compile_kernels_of(DType::f32, {128, 256}); }
TEST_F(CudaAttentionCompiles, EveryKernelOfOtherDTypes) {
  for (DType dtype : {DType::f64, DType::bf16, DType::f16}) compile_kernels_of(dtype, {64});
}

// Memory that the blocks of a launch share, poisoned before each.
const char* const kShared = R"(
alignas(64) static char shared_memory[232448];
#define SHARED(memory) Real* memory = (Real*)shared_memory;
static const bool poisons = (before_block = [] { memset(shared_memory, 0xff, sizeof shared_memory); }, true);
)";

// mma.m16n8k8 by what each lane brings: of operands TF32's 10 bits of mantissa are read.
const char* const kTensorCoresOnHost = R"(
#define TENSOR_CORES
static float read(float x) {
  unsigned u;
  memcpy(&u, &x, 4);
  u &= ~0x1fffu;
  memcpy(&x, &u, 4);
  return x;
}
static float power_of_2(float x) { return exp2f(x); }
static void copy16(void* to, const void* from, bool there) {
  if (there) memcpy(to, from, 16);
  else memset(to, 0, 16);
}
static void wait_for_copies() {}
struct Two { float x[2]; };
static void multiply(float (&c)[4], const float (&a)[4], float b0, float b1) {
  const Two brought[3] = {{a[0], a[1]}, {a[2], a[3]}, {b0, b1}};
  float all[3][32][2];
  for (int i = 0; i < 3; ++i)
    exchange(0xffffffffu, brought[i], [&](auto of) {
      for (unsigned lane = 0; lane < 32; ++lane) all[i][lane][0] = of(lane).x[0], all[i][lane][1] = of(lane).x[1];
      return 0;
    });
  const unsigned lane = threadIdx.x % 32;
  for (unsigned j = 0; j < 4; ++j)
    for (unsigned k = 0; k < 8; ++k)
      c[j] += read(all[k / 4][lane / 4 * 4 + k % 4][j / 2]) * read(all[2][(lane % 4 * 2 + j % 2) * 4 + k % 4][k / 4]);
}
)";

using MakeKernels = std::function<AttentionKernels(const AttentionShape&)>;
AttentionKernels tiled(const AttentionShape& shape) { return tiled_attention(shape, 232448); }
std::string run_on_host(const AttentionCase& c, double tolerance, const MakeKernels& make = tiled) {
  AttentionBlock block(c);
  std::vector<std::byte> delta(static_cast<size_t>(c.batch * c.heads * c.queries) * 8 + 64, std::byte{0xff});
  for (bool backward : {false, true}) {
    AttentionShape shape = attention_shape(c.node(backward), block.in(backward), block.out(backward));
    const AttentionKernels made = make(shape);
    std::vector<std::string> names;
    for (const AttentionLaunch& launch : made.launches) names.push_back(launch.kernel);
    const test::CudaOnHost kernels(str(kTensorCoresOnHost, kShared, made.source), names);
    std::vector<void*> args = block.args(backward, block.bytes.data());
    AttentionArgs packed = attention_args(shape, attention_pointers(shape, args.data()), delta.data());
    void* given[] = {&packed};
    for (const AttentionLaunch& launch : made.launches)
      kernels.launch(launch.kernel, static_cast<unsigned>(launch.grid), static_cast<unsigned>(launch.threads),
                     given);
  }
  return block.differs(block.bytes, true, tolerance);
}

TEST(CudaAttention, TheKernelsComputeAttentionAndItsGradients) {
  std::vector<AttentionCase> cases{
      {.queries = 1, .keys = 1, .size = 16, .causal = true},
      {.batch = 2,
       .queries = 7,
       .keys = 7,
       .heads = 2,
       .kv_heads = 2,
       .size = 5,
       .causal = true,
       .packed = true},
      {.queries = 64, .keys = 64, .heads = 2, .kv_heads = 1, .size = 64, .causal = true, .packed = true},
      {.queries = 100, .keys = 100, .heads = 4, .kv_heads = 2, .size = 16, .causal = true},
      {.queries = 70, .keys = 70, .heads = 1, .kv_heads = 1, .size = 130},
      {.queries = 3, .keys = 150, .heads = 2, .kv_heads = 1, .size = 20},
      {.queries = 150, .keys = 3, .heads = 2, .kv_heads = 2, .size = 20},
  };
  for (AttentionCase c : cases) EXPECT_EQ(run_on_host(c, 2e-6), "");
  for (AttentionCase c : test::masked_cases(DType::f32)) EXPECT_EQ(run_on_host(c, 4e-6), "");
  AttentionCase c{.dtype = DType::f64,
                  .batch = 1,
                  .queries = 40,
                  .keys = 40,
                  .heads = 4,
                  .kv_heads = 2,
                  .size = 24,
                  .causal = true};
  EXPECT_EQ(run_on_host(c, 1e-13), "");
}

// With TF32, of operands 11 bits are read; else all of them, in two parts.
void expect_on_tensor_cores(bool tf32) {
  std::vector<AttentionCase> cases{
      {.queries = 1, .keys = 1, .size = 16, .causal = true},
      {.batch = 2,
       .queries = 7,
       .keys = 7,
       .heads = 2,
       .kv_heads = 2,
       .size = 8,
       .causal = true,
       .packed = true},
      {.queries = 130, .keys = 130, .heads = 2, .kv_heads = 1, .size = 64, .causal = true, .packed = true},
      {.queries = 100, .keys = 100, .heads = 2, .kv_heads = 1, .size = 24, .causal = true},
      {.queries = 40, .keys = 40, .heads = 1, .kv_heads = 1, .size = 128},
      {.queries = 70, .keys = 70, .heads = 1, .kv_heads = 1, .size = 72, .causal = true},
      {.queries = 3, .keys = 150, .heads = 2, .kv_heads = 1, .size = 32},
      {.queries = 150, .keys = 3, .heads = 2, .kv_heads = 2, .size = 16},
  };
  for (AttentionCase c : test::masked_cases(DType::f32)) {
    c.batch = c.kv_heads = 1, c.heads = 2, c.size = 16;
    if (c.keys == c.queries) c.keys = 90;
    c.queries = 90;
    cases.push_back(c);
  }
  for (const AttentionCase& c : cases)
    EXPECT_EQ(run_on_host(c, tf32 ? 4e-3 : 4e-6,
                          [&](const AttentionShape& shape) { return tensor_attention(shape, tf32); }),
              "");
}
TEST(CudaAttention, TensorCoresComputeAttentionAndItsGradientsInTf32) { expect_on_tensor_cores(true); }
TEST(CudaAttention, TensorCoresComputeAttentionAndItsGradientsInF32) { expect_on_tensor_cores(false); }

// [tokens, size] of each head, by a view.
struct HostMatrix {
  float* base;
  HeadView view;
  float& at(int64_t b, int64_t h, int64_t row, int64_t column) const {
    return base[b * view.batch + h * view.head + row * view.token + column];
  }
};
// Softmax of rows between products: the kernel as C++, the products as loops, of f32 and of one piece.
std::string rows_on_host(const AttentionCase& c, double tolerance) {
  AttentionBlock block(c);
  for (bool backward : {false, true}) {
    const AttentionShape s = attention_shape(c.node(backward), block.in(backward), block.out(backward));
    std::vector<void*> args = block.args(backward, block.bytes.data());
    const AttentionPointers p = attention_pointers(s, args.data());
    const int64_t ld = (s.keys + 7) / 8 * 8, rows = s.batch * s.heads * s.queries;
    const HeadView place{s.queries * ld, ld, s.batch * s.queries * ld};
    std::vector<float> scores(rows * ld, NAN), dp(rows * ld, NAN);
    const HostMatrix left{scores.data(), place}, right{dp.data(), place};
    auto matrix = [](void* base, const HeadView& view) {
      return HostMatrix{static_cast<float*>(base), view};
    };
    const HostMatrix q = matrix(p.q, s.q), k = matrix(p.k, s.k), v = matrix(p.v, s.v), o = matrix(p.o, s.o),
                     grad = matrix(p.grad, s.grad), dq = matrix(p.dq, s.dq), dk = matrix(p.dk, s.dk),
                     dv = matrix(p.dv, s.dv);
    auto every_head = [&](auto act) {
      for (int64_t b = 0; b < s.batch; ++b)
        for (int64_t h = 0; h < s.heads; ++h) act(b, h);
    };
    // to[i][j] = sum over n of a(i, n) b(n, j)
    auto product = [&](int64_t b, int64_t h, const HostMatrix& to, int64_t m, int64_t columns, int64_t n,
                       auto x, auto y) {
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (int64_t e = 0; e < n; ++e) sum += static_cast<double>(x(i, e)) * y(e, j);
          to.at(b, h, i, j) = static_cast<float>(sum);
        }
    };
    auto plain = [](const HostMatrix& of, int64_t b, int64_t h) {
      return [&of, b, h](int64_t i, int64_t j) { return of.at(b, h, i, j); };
    };
    auto turned = [](const HostMatrix& of, int64_t b, int64_t h) {
      return [&of, b, h](int64_t i, int64_t j) { return of.at(b, h, j, i); };
    };
    every_head([&](int64_t b, int64_t h) {
      product(b, h, left, s.queries, s.keys, s.size, plain(q, b, h), turned(k, b, h));
      if (backward) product(b, h, right, s.queries, s.keys, s.size, plain(grad, b, h), turned(v, b, h));
    });
    const std::string kernel = backward ? "sdpa_score_gradients" : "sdpa_weights";
    const test::CudaOnHost host(kShared + attention_rows_source(s), {kernel});
    AttentionArgs packed = attention_args(s, p, nullptr);
    int64_t part[] = {0, s.batch, 0, rows};
    float *a = scores.data(), *b = dp.data();
    std::vector<void*> given{&packed, part, &a, &a};
    if (backward) given = {&packed, part, &a, &b, &a, &b};
    host.launch(kernel, static_cast<unsigned>((rows + 7) / 8), 256, given.data());
    every_head([&](int64_t b, int64_t h) {
      if (!backward) return product(b, h, o, s.queries, s.size, s.keys, plain(left, b, h), plain(v, b, h));
      product(b, h, dv, s.keys, s.size, s.queries, turned(left, b, h), plain(grad, b, h));
      product(b, h, dq, s.queries, s.size, s.keys, plain(right, b, h), plain(k, b, h));
      product(b, h, dk, s.keys, s.size, s.queries, turned(right, b, h), plain(q, b, h));
    });
  }
  return block.differs(block.bytes, true, tolerance);
}
TEST(CudaAttention, RowsBetweenProductsComputeAttentionAndItsGradients) {
  std::vector<AttentionCase> cases = test::masked_cases(DType::f32);
  cases.push_back(
      {.batch = 2, .queries = 7, .keys = 7, .heads = 2, .size = 8, .causal = true, .packed = true});
  cases.push_back({.queries = 3, .keys = 1100, .size = 8});  // more columns than stay in registers
  for (AttentionCase c : cases) {
    c.kv_heads = c.heads;
    EXPECT_EQ(rows_on_host(c, 4e-6), "");
  }
}

}  // namespace
}  // namespace lockstep::compiler::cuda
