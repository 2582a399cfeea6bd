// A small residual net of convolutions and pooling: equal losses and state on 1, 2 and 3 ranks, replicated
// and sharded, on 1 and 2 threads, in f32 and bf16.
#include <gtest/gtest.h>

#include "compiler/compile/compile.h"
#include "core/base/philox.h"
#include "core/base/text.h"
#include "core/nn/convolution.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {
using compiler::Backend, compiler::CompileOptions, compiler::Step;
using distributed::local_mesh;

struct Net {
  explicit Net(Scope at)
      : stem(at / "stem", 3, 32, {5}, {.stride = {2}, .padding = {2}, .mode = PadMode::reflect}, false),
        first(at / "first", 32, 32, {3}, {.padding = {1}}),
        second(at / "second", 32, 32, {3}, {.padding = {1}, .groups = 4}),
        down(at / "down", 32, 64, {3}, {.stride = {2}, .padding = {1}}),
        deep(at / "deep", 64, 256, {3}, {.padding = {1}}),
        up(at / "up", 256, 16, {2}, {.stride = {2}}),
        head(at / "head", 16 + 256, 10) {}
  Tensor logits(Tensor x) const {
    x = max_pool(relu(stem(x)), {3}, {.stride = {2}, .padding = {1}});
    x = relu(second(relu(first(x))) + x);
    x = relu(deep(relu(down(x))));
    Tensor wide = adaptive_max_pool(relu(up(x)), {3, 2});
    return head(concat({global_avg_pool(x), global_avg_pool(avg_pool(wide, {2}, {.padding = {1}}))}, 1));
  }
  Conv2d stem, first, second, down, deep;
  ConvTranspose2d up;
  Linear head;
};

struct Options {
  int ranks = 1;
  bool sharded = false;
  int threads = 1;
  DType compute = DType::f32;
  Backend backend = Backend::native;
};
struct Result {
  std::vector<std::string> losses;
  std::string hash;
};

Result train(const Options& run) {
  constexpr int64_t kMicro = 3, kGlobal = 18, kSize = 21;
  const Mesh words{{run.ranks}, {run.sharded ? "dp_shard" : "dp_replicate"}};
  std::vector<Result> results(static_cast<size_t>(run.ranks));
  local_mesh(run.ranks, words, [&](LiveMesh& mesh) {
    State state(mesh, 11);
    if (run.sharded) state.zero(3);
    state.compute_dtype(run.compute);
    Net net(state.root());
    AdamW adamw(state / "optim", {.lr = 3e-3});
    CompileOptions options;
    options.threads = run.threads;
    options.backend = run.backend;
    options.precision = run.compute == DType::bf16 ? "bf16" : "fp32";
    Step step = compile(
        state, {{"image", DType::f32, {kMicro, 3, kSize, kSize}}, {"label", DType::i32, {kMicro}}},
        {kGlobal, kMicro, 0},
        [&](const std::vector<Tensor>& batch) {
          Loss loss = cross_entropy(net.logits(convert(batch[0], run.compute)), batch[1]);
          adamw.update(grad(loss, state.parameters()));
          return loss;
        },
        options);
    state.materialize();
    Result mine;
    for (int64_t i = 1; i <= 4; ++i) {
      auto result =
          step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
                      constexpr int64_t kImage = 3 * kSize * kSize;
                      for (int64_t s = 0; s < count; ++s) {
                        const auto sample = static_cast<uint64_t>(first + s);
                        for (int64_t e = 0; e < kImage; ++e)
                          static_cast<float*>(fields[0])[s * kImage + e] =
                              philox::uniform(philox::bits(5, 6, static_cast<uint64_t>(i),
                                                           sample * kImage + static_cast<uint64_t>(e))) -
                              0.5f;
                        static_cast<int32_t*>(fields[1])[s] = static_cast<int32_t>(sample % 10);
                      }
                    }});
      mine.losses.push_back(number_text(static_cast<float>(result.metrics.at("loss"))));
    }
    mine.hash = state_hash(std::as_const(state).arrays(), mesh);
    results[static_cast<size_t>(mesh.rank)] = mine;
  });
  for (const Result& one : results) EXPECT_EQ(one.losses, results[0].losses);
  return results[0];
}

class Dtypes : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Compute, Dtypes, testing::Values(DType::f32, DType::bf16),
                         [](const auto& given) { return std::string(name(given.param)); });

TEST_P(Dtypes, RanksAndThreadsGiveEqualLosses) {
  const Result one = train({.compute = GetParam()});
  EXPECT_NE(one.losses.front(), one.losses.back());
  for (bool sharded : {false, true})
    for (int ranks : {2, 3}) {
      const Result many = train({.ranks = ranks, .sharded = sharded, .compute = GetParam()});
      EXPECT_EQ(one.losses, many.losses) << ranks << (sharded ? " sharded" : " replicated");
      EXPECT_EQ(one.hash, many.hash) << ranks << (sharded ? " sharded" : " replicated");
    }
  const Result two = train({.threads = 2, .compute = GetParam()});
  EXPECT_EQ(one.losses, two.losses);
  EXPECT_EQ(one.hash, two.hash);
}

TEST(ConvolutionStep, EagerEqualsNative) {
  const Result native = train({}), eager = train({.backend = Backend::eager});
  EXPECT_EQ(native.losses, eager.losses);
  EXPECT_EQ(native.hash, eager.hash);
}

}  // namespace
}  // namespace lockstep
