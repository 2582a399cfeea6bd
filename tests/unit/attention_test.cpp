// Attention of the CPU over several blocks of rows, with each way of masking, against a reference in double:
// f32, bf16 and f16, the same bits on any number of threads.
#include <gtest/gtest.h>

#include "compiler/codegen/library/library.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "tests/unit/attention_case.h"

namespace lockstep::compiler {
namespace {
using test::AttentionBlock;
using test::AttentionCase;

std::vector<std::byte> run(const AttentionCase& c, AttentionBlock block, int threads) {
  for (bool backward : {false, true}) {
    auto call = make_library_call(c.node(backward), block.in(backward), block.out(backward));
    std::vector<std::byte> workspace(call->workspace(threads), std::byte{0xff});
    std::vector<void*> args = block.args(backward, block.bytes.data());
    call->enqueue(args.data(), workspace.data(), *cpu_device().make_stream(), threads);
  }
  return block.bytes;
}

void check(const AttentionCase& c) {
  AttentionBlock block(c);
  const std::vector<std::byte> one = run(c, block, 1), three = run(c, block, 3);
  const double tolerance = c.dtype == DType::f32 ? 4e-6 : c.dtype == DType::f16 ? 5e-3 : 3e-2;
  EXPECT_EQ(block.differs(one, true, tolerance), "");
  EXPECT_TRUE(one == three) << c.text() << ": 1 and 3 threads differ";
}

TEST(Attention, MaskedRowsOfSeveralBlocks) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const AttentionCase& c : test::masked_cases(dtype)) check(c);
}

TEST(Attention, TheNameOfACallTellsItsMasks) {
  AttentionCase c = test::masked_cases(DType::bf16).back();
  AttentionBlock block(c);
  EXPECT_EQ(make_library_call(c.node(true), block.in(true), block.out(true))->algorithm(),
            "bf16 sdpa_grad b=3 t=150 h=4/2 d=16 causal window=33 lengths documents mask bias dbias rows=64");
}

// A NaN among the scores is no mask.
TEST(Attention, NaNPassesThroughAMask) {
  AttentionCase c{.queries = 3, .keys = 3, .size = 4, .causal = true, .mask = true};
  AttentionBlock block(c);
  const float nan = std::nanf("");
  std::memcpy(block.bytes.data() + block.q.at, &nan, 4);
  std::memset(block.bytes.data() + block.mask.at, 1, 9);
  const std::vector<double> o = block.read(run(c, block, 1), block.o);
  EXPECT_TRUE(std::isnan(o[0]));
  EXPECT_FALSE(std::isnan(o[4]));
}

}  // namespace
}  // namespace lockstep::compiler
