// The backward pass of attention on Hopper without a GPU: what it takes, and its kernels through NVRTC.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/attention/attention.h"
#include "compiler/codegen/cuda/source/nvrtc.h"

namespace lockstep::compiler::cuda {
namespace {

AttentionShape shape_of(int64_t heads, int64_t kv_heads, int64_t tokens, int64_t size) {
  AttentionShape s;
  s.dtype = DType::bf16, s.backward = s.reads.causal = true;
  s.batch = 1, s.heads = heads, s.kv_heads = kv_heads, s.size = size, s.queries = s.keys = tokens;
  s.q = s.k = s.v = s.o = s.grad = s.dq = s.dk = s.dv = {tokens * heads * size, heads * size, size};
  return s;
}

TEST(HopperAttention, SaysWhatItDoesNotTake) {
  const AttentionShape fits = shape_of(32, 8, 8192, 128);
  Properties hopper;
  hopper.major = 9, hopper.shared_per_block = 232448;
  auto unfit = [&](auto change) {
    AttentionShape shape = fits;
    Properties device = hopper;
    change(shape, device);
    return unfit_for_hopper(shape, device);
  };
  EXPECT_EQ(unfit([](auto& s, auto&) { s.backward = false; }), "only backward passes in bf16 run so");
  EXPECT_EQ(unfit([](auto& s, auto&) { s.dtype = DType::f16; }), "only backward passes in bf16 run so");
  const std::string masks = "only causal attention without other masks runs so";
  EXPECT_EQ(unfit([](auto& s, auto&) { s.reads.causal = false; }), masks);
  EXPECT_EQ(unfit([](auto& s, auto&) { s.reads.window = 64; }), masks);
  EXPECT_EQ(unfit([](auto& s, auto&) { s.reads.documents = 5; }), masks);
  EXPECT_EQ(unfit([](auto& s, auto&) { s.size = 96; }), "head size 96 is neither 64 nor 128");
  EXPECT_EQ(unfit([](auto& s, auto&) { s.queries = s.keys = 8200; }),
            "8200 queries and 8200 keys are not equal multiples of 128");
  EXPECT_EQ(unfit([](auto& s, auto&) { s.v.token += 4; }), "strides are no multiples of 16 bytes");
  EXPECT_EQ(unfit([](auto&, auto& d) { d.major = 10; }), "compute capability 10.0 is not Hopper's 9.0");
  EXPECT_EQ(unfit([](auto&, auto& d) { d.shared_per_block = 101376; }),
            "a block has 101376 bytes of shared memory, not 231680");
  // Where they pay: measured, bench/results.
  EXPECT_TRUE(pays_on_hopper(fits));
  EXPECT_TRUE(pays_on_hopper(shape_of(32, 8, 2048, 64)));
  EXPECT_FALSE(pays_on_hopper(shape_of(12, 12, 1024, 64)));
  EXPECT_FALSE(pays_on_hopper(shape_of(16, 16, 2048, 128)));
}

TEST(HopperAttention, CompilesForHoppersOwnInstructions) {
  std::string why;
  if (!nvrtc_available(&why)) GTEST_SKIP() << why;
  for (int64_t size : {64, 128})
    EXPECT_GT(compile_cubin(hopper_attention_source(size), "sm_90a", hopper_attention_flags()).size(), 1000u)
        << size;
}

}  // namespace
}  // namespace lockstep::compiler::cuda
