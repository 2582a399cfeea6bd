// The kernel of ContentSums without a GPU: it compiles, and on the host it has the host's sums.
#include "compiler/codegen/cuda/content_sums.h"

#include <gtest/gtest.h>

#include <random>

#include "compiler/codegen/cuda/source/nvrtc.h"
#include "core/mesh/content.h"
#include "tests/unit/cuda/cuda_on_host.h"

namespace lockstep::compiler::cuda {
namespace {

TEST(CudaContentSums, TheKernelCompiles) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  for (const char* target : {"sm_80", "sm_90"})
    EXPECT_NE(compile_cubin(content_source(), target).find("content_sums"), std::string::npos);
}

TEST(CudaContentSums, LongRunsAreCut) {
  std::vector<std::byte> none(1);
  const auto spans =
      spans_of({{none.data(), 2 * kSpanElements + 3, 10, 7, 0, 4}, {none.data(), 0, 0, 0, 0, 8}});
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[2].count, 3);
  EXPECT_EQ(spans[2].index, 10u + 2 * kSpanElements);
  EXPECT_EQ(spans[2].data, none.data() + 8 * kSpanElements);
}

TEST(CudaContentSums, HaveTheHostsSums) {
  const test::CudaOnHost kernels(content_source(), {"content_sums"});
  std::mt19937 random(5);
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8}) {
    const int64_t counts[] = {1, 255, 256, 257, 3001, 70};
    std::vector<std::vector<std::byte>> data;
    std::vector<ContentRun> runs;
    ContentSum want;
    StateHash hash;
    for (int64_t count : counts) {
      auto& bytes = data.emplace_back(static_cast<size_t>(count) * size_of(dtype));
      for (auto& byte : bytes) byte = static_cast<std::byte>(random());  // some of them are not finite
      const uint64_t index = random(), key = random() * uint64_t{0x123456789};
      runs.push_back({bytes.data(), count, index, key, exponent_bits(dtype), size_of(dtype)});
      hash.add(hash_run(size_of(dtype), bytes.data(), count, index, key));
      const NonFiniteCount found = count_nonfinite(dtype, bytes.data(), count);
      want.nonfinite += found.count;
      if (found.count) want.first = std::min(want.first, index + static_cast<uint64_t>(found.first));
    }
    const std::vector<ContentSpan> spans = spans_of(runs);
    for (unsigned blocks : {1u, 3u, 6u})
      for (bool backward : {false, true}) {
        std::vector<ContentPart> parts(blocks, ContentPart{1, 2, 3, 4});
        const ContentSpan* table = spans.data();
        ContentPart* out = parts.data();
        unsigned long long count = spans.size();
        void* args[] = {&table, &count, &out};
        kernels.launch("content_sums", blocks, kContentThreads, args, backward);
        ContentSum sum;
        for (const ContentPart& part : parts) add(sum, part);
        EXPECT_EQ((StateHash{sum.lo, sum.hi}), hash) << name(dtype) << " in " << blocks;
        EXPECT_EQ(sum.nonfinite, want.nonfinite) << name(dtype);
        EXPECT_EQ(sum.first, want.first) << name(dtype);
      }
    if (dtype == DType::bf16) { EXPECT_GT(want.nonfinite, 0); }
  }
}

}  // namespace
}  // namespace lockstep::compiler::cuda
