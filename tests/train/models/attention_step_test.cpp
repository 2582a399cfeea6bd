// A model with every way of masking: an encoder over padded sequences with dropout and a learned bias, and a
// decoder over packed documents with a window, positions and attention to the encoder. It learns, with the
// same bits on any ranks and threads.
#include <gtest/gtest.h>

#include <map>

#include "compiler/compile/compile.h"
#include "core/base/philox.h"
#include "core/nn/attention.h"
#include "core/ops/op.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {
using compiler::BatchField;
using Batch = std::vector<Tensor>;

constexpr int64_t kMicro = 2, kGlobal = 12, kSource = 5, kTokens = 6, kWords = 13, kWidth = 16, kHeads = 4;
const std::vector<BatchField> kFields{{"source", DType::i32, {kMicro, kSource}},
                                      {"lengths", DType::i32, {kMicro}},
                                      {"ids", DType::i32, {kMicro, kTokens}},
                                      {"documents", DType::i32, {kMicro, kTokens}},
                                      {"next", DType::i32, {kMicro, kTokens}}};

struct Net {
  explicit Net(State& s)
      : words(s / "words", kWords, kWidth),
        encoder(s / "encoder", kWidth, kHeads, {.causal = false, .dropout = 0.2}),
        decoder(s / "decoder", kWidth, kHeads, 2, LlamaAttentionOptions{.window = 3}),
        cross(s / "cross", kWidth, kHeads, {.causal = false, .bias = false, .kv_heads = 2, .scale = 1.0}),
        norm(s / "norm", kWidth),
        bias(s.root().parameter("bias", {1, kHeads, kSource, kSource}, init::normal(0.1))) {}
  Loss loss(const Batch& b) const {
    Tensor memory = words(b[0]);
    memory = memory + encoder(memory, {.mask = padding_mask(b[1], kSource), .bias = bias(memory)});
    Tensor x = words(b[2]);
    x = x + decoder(x, {.documents = b[3]}, b[2]);
    x = x + cross(x, memory, {.lengths = b[1]});
    return cross_entropy(words.logits(norm(x)), b[4]);
  }
  Embedding words;
  Attention encoder;
  LlamaAttention decoder;
  MultiheadAttention cross;
  LayerNorm norm;
  Parameter bias;
};

// The next word is the word and one.
void fill(int64_t step, int64_t first, int64_t count, const std::vector<void*>& to) {
  for (int64_t sample = 0; sample < count; ++sample) {
    auto word = [&](int64_t field, int64_t t) {
      const int64_t at = ((first + sample) * 2 + field) * 8 + t;
      return static_cast<int32_t>(
          philox::bits(5, 1, static_cast<uint64_t>(step % 3), static_cast<uint64_t>(at)) % kWords);
    };
    for (int64_t t = 0; t < kSource; ++t) static_cast<int32_t*>(to[0])[sample * kSource + t] = word(0, t);
    static_cast<int32_t*>(to[1])[sample] = static_cast<int32_t>((first + sample) % (kSource + 1));
    for (int64_t t = 0; t < kTokens; ++t) {
      const int64_t at = sample * kTokens + t;
      static_cast<int32_t*>(to[2])[at] = word(1, t);
      static_cast<int32_t*>(to[3])[at] = static_cast<int32_t>(t / (2 + (first + sample) % 3));
      static_cast<int32_t*>(to[4])[at] = (word(1, t) + 1) % static_cast<int32_t>(kWords);
    }
  }
}

struct Result {
  std::vector<double> losses;
  std::string hash;
};
Result train(const Mesh& words, DType compute, int threads) {
  Result out;
  distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    const Net net(state);
    AdamW adamw(state / "optim", {.lr = 2e-2, .clip = 1});
    state.compute_dtype(compute);
    compiler::CompileOptions options;
    options.threads = threads;
    compiler::Step step = compile(
        state, kFields, {kGlobal, kMicro, 0},
        [&](const Batch& batch) {
          Loss loss = net.loss(batch);
          adamw.update(grad(loss, state.parameters()));
          return loss;
        },
        options);
    state.materialize();
    std::vector<double> losses;
    for (int64_t i = 1; i <= 12; ++i)
      losses.push_back(step.run({i, [&](int64_t first, int64_t count,
                                        const std::vector<void*>& to) { fill(i, first, count, to); }})
                           .metrics.at("loss"));
    std::string hash = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank == 0) out = {losses, hash};
  });
  return out;
}

TEST(AttentionStep, EqualBitsOnAnyRanksAndThreads) {
  for (DType compute : {DType::f32, DType::bf16}) {
    const Result one = train({{1}, {"dp_replicate"}}, compute, 1);
    EXPECT_LT(one.losses.back(), 0.8 * one.losses.front());
    for (double loss : one.losses) EXPECT_TRUE(std::isfinite(loss));
    struct Way {
      const char* name;
      Mesh mesh;
      int threads;
    };
    for (const Way& way :
         {Way{"1 rank, 2 threads", {{1}, {"dp_replicate"}}, 2}, Way{"2 ranks", {{2}, {"dp_replicate"}}, 1},
          Way{"3 ranks", {{3}, {"dp_replicate"}}, 1}, Way{"2 ranks, sharded", {{2}, {"dp_shard"}}, 2}}) {
      const Result many = train(way.mesh, compute, way.threads);
      EXPECT_EQ(one.losses, many.losses) << way.name;
      EXPECT_EQ(one.hash, many.hash) << way.name;
    }
  }
}

// What the kernels take stays whole; dropout alone is expanded.
TEST(AttentionStep, MasksStayInTheKernels) {
  const LiveMesh mesh = solo_mesh();
  State state(mesh, 3);
  const Net net(state);
  AdamW adamw(state / "optim", {.lr = 2e-2});
  auto calls = [&] {
    const compiler::StepPlan plan = compiler::plan_step(state, mesh.words, kFields, {kGlobal, kMicro, 0},
                                                        [&](const Batch& batch) {
                                                          Loss loss = net.loss(batch);
                                                          adamw.update(grad(loss, state.parameters()));
                                                          return loss;
                                                        },
                                                        {});
    std::map<std::string, int> out;
    for (const Node& node : plan.phases.body.graph.nodes)
      if (op_row(node.op).library == Library::attention) ++out[std::string(node.op.name())];
    return out;
  };
  EXPECT_EQ(calls(), (std::map<std::string, int>{{"sdpa", 2}, {"sdpa_grad", 2}}));
  const Evaluation evaluation;
  EXPECT_EQ(calls(), (std::map<std::string, int>{{"sdpa", 3}, {"sdpa_grad", 3}}));
}

}  // namespace
}  // namespace lockstep
