// Attention of the CPU over several blocks of rows, with each way of masking, against a reference in double:
// f32, bf16 and f16, the same bits on any number of threads.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "compiler/codegen/library/attention_call.h"
#include "compiler/codegen/library/library.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "tests/unit/compiler/attention_case.h"

namespace lockstep::compiler {
namespace {
using test::AttentionBlock;
using test::AttentionCase;

using Make = std::function<std::unique_ptr<LibraryCall>(const Node&, const std::vector<Operand>&,
                                                        const std::vector<Operand>&)>;

std::vector<std::byte> run(const AttentionCase& c, AttentionBlock block, int threads,
                           const Make& make = make_library_call) {
  for (bool backward : {false, true}) {
    auto call = make(c.node(backward), block.in(backward), block.out(backward));
    std::vector<std::byte> workspace(call->workspace(threads) + 256, std::byte{0xff});
    std::vector<void*> args = block.args(backward, block.bytes.data());
    void* at = workspace.data() + (256 - reinterpret_cast<uintptr_t>(workspace.data()) % 256) % 256;
    call->enqueue(args.data(), at, *cpu_device().make_stream(), threads);
  }
  return block.bytes;
}

void check(const AttentionCase& c, const Make& make = make_library_call) {
  AttentionBlock block(c);
  const std::vector<std::byte> one = run(c, block, 1, make), three = run(c, block, 3, make);
  const double tolerance = c.dtype == DType::f32 ? 4e-6 : c.dtype == DType::f16 ? 5e-3 : 3e-2;
  EXPECT_EQ(block.differs(one, true, tolerance), "");
  EXPECT_TRUE(one == three) << c.text() << ": 1 and 3 threads differ";
}

TEST(Attention, MaskedRowsOfSeveralBlocks) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const AttentionCase& c : test::masked_cases(dtype)) check(c);
}

// Head dims and lengths that fill panels and that do not, several chunks of keys, on each unit that this
// processor has.
TEST(Attention, Bf16OnTheProcessorsProducts) {
  if (panels::best_unit() == panels::Unit::none) GTEST_SKIP() << "this processor does not multiply bf16";
  std::vector<AttentionCase> cases = test::masked_cases(DType::bf16);
  const AttentionCase base{.dtype = DType::bf16, .batch = 2, .heads = 4, .kv_heads = 4};
  for (auto [queries, keys, size] :
       {std::array<int64_t, 3>{197, 197, 64}, {128, 128, 64}, {5, 700, 40}, {600, 600, 80}}) {
    AttentionCase c = base;
    c.queries = queries, c.keys = keys, c.size = size, c.causal = c.packed = queries == 600;
    cases.push_back(c);
    c.kv_heads = 2, c.lengths = true, c.bias = c.size == 40;
    cases.push_back(c);
  }
  for (panels::Unit unit : {panels::Unit::avx512, panels::Unit::amx}) {
    if (unit > panels::best_unit()) continue;
    for (const AttentionCase& c : cases)
      check(c, [&](const Node& node, const std::vector<Operand>& in, const std::vector<Operand>& out) {
        return make_bf16_attention(node, in, out, unit);
      });
  }
}

TEST(Attention, TheNameOfACallTellsItsMasksAndItsUnit) {
  AttentionCase c = test::masked_cases(DType::bf16).back();
  AttentionBlock block(c);
  std::string unit;
  if (panels::best_unit() != panels::Unit::none) unit = str(" keys=160 ", panels::name(panels::best_unit()));
  EXPECT_EQ(make_library_call(c.node(true), block.in(true), block.out(true))->algorithm(),
            "bf16 sdpa_grad b=3 t=150 h=4/2 d=16 causal window=33 lengths documents mask bias dbias rows=64" +
                unit);
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
