// Attention on a GPU against a reference in double: cuDNN for bf16 and f16, the room's own kernels for the
// rest; bits and captured graphs.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/attention/attention.h"
#include "compiler/codegen/cuda/library/library.h"
#include "core/base/error.h"
#include "tests/unit/compiler/attention_case.h"

namespace lockstep::compiler::cuda {
namespace {
using test::AttentionBlock;
using test::AttentionCase;

class GpuAttention : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!available(&why)) GTEST_SKIP() << why;
    device_ = open_device(0);
    device_->enter();
  }
  double tolerance(DType dtype) const {
    if (dtype == DType::f64) return 1e-12;
    if (dtype == DType::f32)
      return options_.tf32 ? 6e-3 : 2e-5;  // dp - delta cancels where a row sees one key
    return dtype == DType::f16
               ? 5e-3
               : 3e-2;  // probabilities and their gradients are rounded before the second product
  }
  // A call with its arguments and a workspace on the device.
  struct Call {
    std::unique_ptr<LibraryCall> call;
    std::vector<void*> args;
    Buffer workspace;
    void enqueue(Stream& stream) const { call->enqueue(args.data(), workspace.data(), stream, 1); }
  };
  // `cap`: products, their scores in pieces of so many bytes, instead of what the target chooses.
  Call make(const AttentionCase& c, const AttentionBlock& block, bool backward, void* base, int64_t cap = 0) {
    const auto in = block.in(backward), out = block.out(backward);
    Call made{hopper_ && backward
                  ? make_hopper_attention(*device_, attention_shape(c.node(backward), in, out), "", lanes_)
              : cap ? make_product_attention(*device_, attention_shape(c.node(backward), in, out), cap, false,
                                             "", "")
                    : make_attention(*device_, c.node(backward), in, out, options_),
              block.args(backward, base),
              {}};
    LS_CHECK(made.call, "cuBLASLt has no algorithm for ", c.text());
    if (size_t bytes = made.call->workspace(1)) {
      made.workspace = Buffer(bytes, device_->memory());
      std::unique_ptr<Stream> stream = device_->make_stream();
      std::vector<std::byte> poison(bytes, std::byte{0xff});
      copy_to_device(*device_, made.workspace.data(), poison.data(), bytes);
    }
    return made;
  }
  std::vector<std::byte> fetch(const Buffer& buffer, size_t bytes) {
    std::vector<std::byte> out(bytes);
    copy_to_host(*device_, out.data(), buffer.data(), bytes);
    return out;
  }
  // Forward and backward; empty, or what is wrong. Twice: equal bits.
  std::string run(const AttentionCase& c, int64_t cap = 0) {
    AttentionBlock block(c);
    std::vector<std::byte> first;
    std::string how;
    for (int round = 0; round < 2; ++round) {
      Buffer memory(block.bytes.size(), device_->memory());
      copy_to_device(*device_, memory.data(), block.bytes.data(), block.bytes.size());
      std::unique_ptr<Stream> stream = device_->make_stream();
      Call forward = make(c, block, false, memory.data(), cap),
           backward = make(c, block, true, memory.data(), cap);
      how = forward.call->algorithm() + " | " + backward.call->algorithm();
      forward.enqueue(*stream);
      backward.enqueue(*stream);
      stream->synchronize();
      std::vector<std::byte> got = fetch(memory, block.bytes.size());
      std::string why = block.differs(got, true, tolerance(c.dtype));
      if (!why.empty()) return why + " by " + how;
      if (round == 0)
        first = got;
      else if (first != got)
        return c.text() + ": two runs differ, by " + how;
    }
    return "";
  }
  void run_all(DType dtype) {
    for (int64_t size : {16, 64, 128})
      for (int64_t tokens : {1, 7, 64, 100, 1024})
        for (bool causal : {false, true})
          for (bool grouped : {false, true}) {
            AttentionCase c{.dtype = dtype, .causal = causal, .packed = (tokens != 64)};
            c.queries = c.keys = tokens, c.size = size;
            c.batch = tokens == 1024 ? 1 : 3, c.heads = tokens == 1024 ? 2 : 4,
            c.kv_heads = grouped ? c.heads / 2 : c.heads;
            // Each shape costs cuDNN a compilation, and long ones a slow reference: all four kinds at 100
            // tokens, two at the others.
            if (tokens != 100 && grouped != causal) continue;
            if (tokens == 1024 && size == 16) continue;
            EXPECT_EQ(run(c), "");
          }
  }
  // Whether the GPU is one whose instructions Hopper's tiles are made of. There they must run.
  bool is_hopper() const { return device_->properties().major == 9 && device_->properties().minor == 0; }
  std::string unfit(const AttentionCase& c, const AttentionBlock& block) const {
    return unfit_for_hopper(attention_shape(c.node(true), block.in(true), block.out(true)),
                            device_->properties());
  }
  std::shared_ptr<CudaDevice> device_;
  TargetOptions options_;
  bool hopper_ = false;  // backward passes run on Hopper's tiles, whether they pay or not
  int lanes_ = 1;        // of a warp of theirs that tell others that it is done
};

TEST_F(GpuAttention, Bf16AgreesWithTheReferenceAndRepeatsItsBits) { run_all(DType::bf16); }
// Hopper's tiles: dQ is added in turns by the blocks that hold keys, dK and dV in turns by heads that share
// them; other blocks are ahead or behind from run to run, the bits are not.
TEST_F(GpuAttention, HoppersTilesAgreeWithTheReferenceAndRepeatTheirBits) {
  if (!is_hopper()) GTEST_SKIP() << "this GPU is not of compute capability 9.0";
  hopper_ = true;
  for (int64_t size : {64, 128})
    for (int64_t tokens : {128, 384, 640})
      for (int64_t kv_heads : {1, 2, 4}) {
        AttentionCase c{.dtype = DType::bf16, .causal = true, .packed = tokens != 384};
        c.queries = c.keys = tokens, c.size = size, c.heads = 4, c.kv_heads = kv_heads;
        c.batch = tokens == 128 ? 3 : 1;
        if (tokens == 640 && kv_heads == 2) continue;  // the reference is slow
        ASSERT_EQ(unfit(c, AttentionBlock(c)), "");
        EXPECT_EQ(run(c), "");
      }
}
// The form of the tiles whose order racecheck can follow. Stages are used again from the third step on.
TEST_F(GpuAttention, EveryLaneOfHoppersTilesMayArrive) {
  if (!is_hopper()) GTEST_SKIP() << "this GPU is not of compute capability 9.0";
  hopper_ = true, lanes_ = 32;
  for (int64_t size : {64, 128}) {
    AttentionCase c{.dtype = DType::bf16, .batch = 1, .queries = 640, .keys = 640, .heads = 4, .kv_heads = 2};
    c.size = size, c.causal = true;
    EXPECT_EQ(run(c), "");
  }
}
TEST_F(GpuAttention, LongCausalSequencesRunOnHoppersTilesAndRepeatTheirBits) {
  AttentionCase c{.dtype = DType::bf16, .batch = 1, .queries = 2048, .keys = 2048, .heads = 4, .kv_heads = 2};
  if (!is_hopper()) GTEST_SKIP() << "this GPU is not of compute capability 9.0";
  c.size = 64, c.causal = true;
  AttentionBlock block(c);
  ASSERT_EQ(unfit(c, block), "");
  Buffer memory(block.bytes.size(), device_->memory());
  copy_to_device(*device_, memory.data(), block.bytes.data(), block.bytes.size());
  std::unique_ptr<Stream> stream = device_->make_stream();
  Call forward = make(c, block, false, memory.data()), backward = make(c, block, true, memory.data());
  EXPECT_EQ(backward.call->algorithm().rfind("Hopper's tiles sdpa_grad bf16 b=1 t=2048 h=4/2 d=64 causal", 0),
            0u)
      << backward.call->algorithm();
  forward.enqueue(*stream);
  std::vector<std::byte> first;
  for (int round = 0; round < 10; ++round) {
    backward.enqueue(*stream);
    stream->synchronize();
    std::vector<std::byte> got = fetch(memory, block.bytes.size());
    if (round == 0) {
      first = got;
      EXPECT_EQ(block.differs(got, true, tolerance(DType::bf16)), "");
    }
    EXPECT_TRUE(got == first) << "round " << round;
  }
}
// On tensor cores, of which two numbers hold one of f32.
TEST_F(GpuAttention, F32AgreesWithTheReferenceAndRepeatsItsBits) {
  run_all(DType::f32);
  AttentionCase c{
      .dtype = DType::f32, .batch = 2, .queries = 70, .keys = 70, .heads = 2, .kv_heads = 2, .size = 64};
  AttentionBlock block(c);
  auto call = make_attention(*device_, c.node(true), block.in(true), block.out(true), options_);
  EXPECT_EQ(call->algorithm().rfind("tensor cores, f32 as two TF32 sdpa_grad f32", 0), 0u)
      << call->algorithm();
}

// On tensor cores, masks included; of operands 11 bits are read.
TEST_F(GpuAttention, Tf32AgreesWithTheReferenceAndRepeatsItsBits) {
  options_.tf32 = true;
  run_all(DType::f32);
  for (AttentionCase c : test::masked_cases(DType::f32)) {
    c.size = (c.size + 7) / 8 * 8;
    EXPECT_EQ(run(c), "");
  }
  AttentionCase c{
      .dtype = DType::f32, .batch = 2, .queries = 70, .keys = 70, .heads = 2, .kv_heads = 2, .size = 64};
  AttentionBlock block(c);
  auto call = make_attention(*device_, c.node(true), block.in(true), block.out(true), options_);
  EXPECT_EQ(call->algorithm().rfind("tensor cores sdpa_grad f32", 0), 0u) << call->algorithm();
}

// Windows of bf16 are cuDNN's; the other masks are the room's own in every dtype.
TEST_F(GpuAttention, MaskedRowsAgreeWithTheReference) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const AttentionCase& c : test::masked_cases(dtype)) EXPECT_EQ(run(c), "");
}

// Softmax between products, whole and in pieces of a head, with every mask and the bias's gradient.
TEST_F(GpuAttention, ProductsAgreeWithTheReference) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    std::vector<AttentionCase> cases = test::masked_cases(dtype);
    for (int64_t tokens : {1, 7, 100, 128, 1100}) {
      AttentionCase c{.dtype = dtype, .causal = tokens % 2 == 0, .packed = tokens > 7};
      c.batch = tokens > 1000 ? 1 : 3, c.queries = c.keys = tokens, c.heads = c.kv_heads = 2, c.size = 64;
      c.bias = tokens >= 100, c.scale = 0.125;
      cases.push_back(c);
      c.batch = 1, c.heads = c.kv_heads = 3, c.keys += tokens > 100 ? 0 : 33, c.causal = false;
      c.packed = c.packed && c.keys == c.queries;
      cases.push_back(c);
    }
    for (AttentionCase c : cases) {
      if (c.heads != c.kv_heads) c.kv_heads = c.heads;
      if (c.size % 8 != 0) c.size = 16;
      EXPECT_EQ(run(c, int64_t{1} << 30), "");
      if (c.batch > 1) EXPECT_EQ(run(c, 1), "");
    }
  }
}
TEST_F(GpuAttention, ABiasOfManySamplesRunsAsProducts) {
  AttentionCase c{
      .dtype = DType::bf16, .batch = 32, .queries = 128, .keys = 128, .heads = 8, .kv_heads = 8, .size = 64};
  c.bias = true, c.scale = 0.125;
  AttentionBlock block(c);
  auto call = make_attention(*device_, c.node(true), block.in(true), block.out(true), {});
  EXPECT_EQ(call->algorithm().rfind("products sdpa_grad bf16 b=32 t=128 h=8/8 d=64 bias", 0), 0u)
      << call->algorithm();
  EXPECT_EQ(run(c), "");
}

TEST_F(GpuAttention, F16F64AndUnusualSizesAgreeWithTheReference) {
  std::vector<AttentionCase> cases{
      {.dtype = DType::f16,
       .batch = 2,
       .queries = 100,
       .keys = 100,
       .heads = 4,
       .kv_heads = 2,
       .size = 64,
       .causal = true,
       .packed = true},
      {.dtype = DType::f16,
       .batch = 2,
       .queries = 33,
       .keys = 33,
       .heads = 2,
       .kv_heads = 2,
       .size = 6,
       .causal = true},
      {.dtype = DType::bf16,
       .batch = 2,
       .queries = 50,
       .keys = 50,
       .heads = 2,
       .kv_heads = 1,
       .size = 20,
       .causal = true,
       .packed = true},
      {.dtype = DType::bf16, .batch = 2, .queries = 40, .keys = 200, .heads = 2, .kv_heads = 1, .size = 64},
      {.dtype = DType::bf16,
       .batch = 1,
       .queries = 130,
       .keys = 130,
       .heads = 2,
       .kv_heads = 1,
       .size = 256,
       .causal = true},
      {.dtype = DType::f64,
       .batch = 2,
       .queries = 70,
       .keys = 70,
       .heads = 4,
       .kv_heads = 2,
       .size = 64,
       .causal = true,
       .packed = true},
      {.dtype = DType::f64, .batch = 1, .queries = 20, .keys = 20, .heads = 1, .kv_heads = 1, .size = 256},
      {.dtype = DType::f32, .batch = 1, .queries = 3, .keys = 300, .heads = 2, .kv_heads = 1, .size = 20},
      {.dtype = DType::f32,
       .batch = 2,
       .queries = 90,
       .keys = 90,
       .heads = 3,
       .kv_heads = 1,
       .size = 256,
       .causal = true},
  };
  for (const AttentionCase& c : cases) EXPECT_EQ(run(c), "");
}

TEST_F(GpuAttention, EmptyCallsDoNothing) {
  for (DType dtype : {DType::bf16, DType::f32}) {
    AttentionCase c{.dtype = dtype, .batch = 0, .queries = 5, .keys = 5};
    EXPECT_EQ(run(c), "");
  }
}

TEST_F(GpuAttention, WorksUnderGraphCaptureAtTheFirstCall) {
  // A shape of its own, so that no earlier test has loaded its kernels.
  AttentionCase own{
      .batch = 2, .queries = 136, .keys = 136, .heads = 2, .kv_heads = 1, .size = 72, .causal = true};
  std::vector<AttentionCase> cases{own, own};
  cases[0].dtype = DType::bf16;
  // Of Hopper's tiles more than there are multiprocessors, of an odd number of heads: some wait for others
  // that are not resident yet, and all turns begin again at each launch.
  if (is_hopper())
    cases.push_back({.dtype = DType::bf16,
                     .batch = 3,
                     .queries = 256,
                     .keys = 256,
                     .heads = 25,
                     .kv_heads = 5,
                     .size = 64,
                     .causal = true});
  for (const AttentionCase& c : cases) {
    hopper_ = c.size == 64;
    const DType dtype = c.dtype;
    AttentionBlock block(c);
    Buffer memory(block.bytes.size(), device_->memory());
    copy_to_device(*device_, memory.data(), block.bytes.data(), block.bytes.size());
    std::unique_ptr<Stream> stream = device_->make_stream();
    Call forward = make(c, block, false, memory.data()), backward = make(c, block, true, memory.data());
    std::unique_ptr<CapturedWork> work = device_->capture(*stream, [&] {
      forward.enqueue(*stream);
      backward.enqueue(*stream);
    });
    ASSERT_NE(work, nullptr);
    EXPECT_GE(work->nodes(), 3);
    std::vector<std::byte> first;
    for (int launch = 0; launch < 3; ++launch) {
      copy_to_device(*device_, memory.data(), block.bytes.data(), block.bytes.size());
      work->launch(*stream);
      stream->synchronize();
      std::vector<std::byte> got = fetch(memory, block.bytes.size());
      EXPECT_EQ(block.differs(got, true, tolerance(dtype)), "");
      if (launch == 0) first = got;
      EXPECT_EQ(first == got, true) << c.text() << " launch " << launch;
    }
  }
}

TEST_F(GpuAttention, PiecesGiveTheBitsOfTheWhole) {
  AttentionCase c{
      .dtype = DType::bf16, .batch = 3, .queries = 100, .keys = 100, .heads = 4, .kv_heads = 2, .size = 64};
  c.causal = c.packed = true;
  AttentionBlock block(c);
  std::vector<std::byte> whole;
  for (int64_t cap : {kLeastScoreCap, int64_t{1} << 17, int64_t{1}}) {
    Buffer memory(block.bytes.size(), device_->memory());
    copy_to_device(*device_, memory.data(), block.bytes.data(), block.bytes.size());
    std::unique_ptr<Stream> stream = device_->make_stream();
    Call forward = make(c, block, false, memory.data());
    forward.enqueue(*stream);
    AttentionShape shape = attention_shape(c.node(true), block.in(true), block.out(true));
    std::vector<void*> args = block.args(true, memory.data());
    std::vector<std::shared_ptr<const SdpaPlan>> plans;
    std::vector<Buffer> workspaces;
    for (const AttentionPiece& piece : cut_attention(shape, cap)) {
      std::string refused;
      plans.push_back(plan_sdpa(*device_, shape_of_piece(shape, piece), true, refused));
      ASSERT_NE(plans.back(), nullptr) << refused;
      workspaces.emplace_back(static_cast<size_t>(plans.back()->workspace()), device_->memory());
      plans.back()->enqueue(pointers_of_piece(shape, piece, attention_pointers(shape, args.data())),
                            workspaces.back().data(), *stream);
    }
    stream->synchronize();
    std::vector<std::byte> got = fetch(memory, block.bytes.size());
    EXPECT_EQ(block.differs(got, true, tolerance(c.dtype)), "") << cap;
    if (whole.empty()) whole = got;
    EXPECT_EQ(whole == got, true) << plans.size() << " pieces";
  }
}

TEST_F(GpuAttention, EqualLayersShareAPlanAndTheCertificateNamesIt) {
  AttentionCase c{.dtype = DType::bf16,
                  .batch = 2,
                  .queries = 128,
                  .keys = 128,
                  .heads = 2,
                  .kv_heads = 2,
                  .size = 64,
                  .causal = true};
  AttentionBlock block(c);
  AttentionShape shape = attention_shape(c.node(true), block.in(true), block.out(true));
  std::string refused;
  auto first = plan_sdpa(*device_, shape, true, refused), second = plan_sdpa(*device_, shape, true, refused);
  EXPECT_EQ(first, second);
  auto call = make_attention(*device_, c.node(true), block.in(true), block.out(true), {});
  for (const char* part : {"cuDNN 9.", "eng", "sdpa_grad bf16 b=2 t=128 h=2/2 d=64 causal", "deterministic"})
    EXPECT_NE(call->algorithm().find(part), std::string::npos) << call->algorithm();
  EXPECT_GE(call->workspace(1), static_cast<size_t>(score_bytes(shape)));
  EXPECT_LT(call->workspace(1), static_cast<size_t>(score_bytes(shape)) + (1 << 20));
}

}  // namespace
}  // namespace lockstep::compiler::cuda
