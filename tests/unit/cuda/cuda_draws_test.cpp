// The kernel of Draws without a GPU: it compiles, and on the host it has the bits of fill().
#include "compiler/codegen/cuda/draws.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/base/hash.h"
#include "core/mesh/array.h"
#include "core/nn/init.h"
#include "tests/unit/cuda/cuda_on_host.h"

namespace lockstep::compiler::cuda {
namespace {

TEST(CudaDraws, TheKernelCompiles) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  for (const char* target : {"sm_80", "sm_90"})
    EXPECT_NE(compile_cubin(draws_source(), target).find("draws"), std::string::npos);
}

TEST(CudaDraws, LongRunsAreCutWhereAQuadEnds) {
  float none = 0;
  const auto spans = spans_of({{&none, 2 * kDrawElements + 3, 10}, {&none, 0, 0}, {&none, 1, 7}});
  ASSERT_EQ(spans.size(), 4u);
  int64_t sum = 0;
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(spans[s].index, 10u + static_cast<uint64_t>(sum));
    EXPECT_EQ(spans[s].data, &none + sum);
    sum += spans[s].count;
    if (s < 2) { EXPECT_EQ((spans[s].index + static_cast<uint64_t>(spans[s].count)) % 4, 0u); }
  }
  EXPECT_EQ(sum, 2 * kDrawElements + 3);
  EXPECT_EQ(spans[3].count, 1);
}

TEST(CudaDraws, HaveTheHostsBits) {
  const test::CudaOnHost kernels(draws_source(), {"draws"});
  constexpr uint64_t kSeed = 0x123456789abcdef1ull;
  struct Case {
    Init init;
    double base, scale;
    float most = std::numeric_limits<float>::infinity();
  };
  for (const Case& c : {Case{init::normal(0.02), 0, 0.02}, Case{init::normal(3, -0.25), -0.25, 3},
                        Case{init::uniform(-0.1, 0.3), -0.1, 0.3 - -0.1, std::nextafter(0.3f, 0.0f)},
                        Case{init::uniform(1e6, 1e6 + 1), 1e6, 1, 1e6 + 0.9375}}) {
    Array array = make_array("a.weight", DType::f32, {50'003}, Layout{}, Mesh{}, 0);
    fill(array, c.init, kSeed);
    const auto* want = array.data.as<float>();
    for (bool backward : {false, true}) {
      std::vector<float> got(50'003, 7);
      // Every alignment within a quad, one element alone, and what is between two runs stays.
      std::vector<DrawRun> runs = {{&got[0], 1, 0},          {&got[1], 2, 1},
                                   {&got[3], 13, 3},         {&got[18], 1000, 18},
                                   {&got[1019], 1, 1019},    {&got[1021], 48'977, 1021},
                                   {&got[49'999], 4, 49'999}};
      const auto spans = spans_of(runs);
      const DrawRun* table = spans.data();
      unsigned long long count = spans.size(), seed = kSeed, stream = hash64("a.weight");
      double base = c.base, scale = c.scale;
      float most = c.most;
      int normal = c.init.kind == Init::Kind::normal;
      void* args[] = {&table, &count, &seed, &stream, &base, &scale, &most, &normal};
      kernels.launch("draws", 3, kDrawThreads, args, backward);
      for (size_t i = 0; i < got.size(); ++i) {
        const bool drawn = i != 16 && i != 17 && i != 1018 && i != 1020 && i != 49'998;
        ASSERT_EQ(got[i], drawn ? want[i] : 7) << i << " normal " << normal << " base " << base;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::compiler::cuda
