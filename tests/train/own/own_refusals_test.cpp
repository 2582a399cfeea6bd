// Steps of a user's own that were met with a defect's words: what works now, and what is refused in the
// user's words.
#include <gtest/gtest.h>

#include "compiler/compile/compile.h"
#include "compiler/compile/forward.h"
#include "core/base/error.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"

namespace lockstep {

using namespace compiler;

namespace {

// Four experts of which tp splits `up`; the router's weight is read in parts by its neighbours, and is whole.
struct Experts {
  Embedding tok;
  LayerNorm n2, n3;
  Linear gate;
  Parameter up;
  AdamW opt;
  explicit Experts(State& state)
      : tok(state / "tok", 16, 8),
        n2(state / "n2", 8),
        n3(state / "n3", 8),
        gate(state / "gate", 8, 8),
        up(state.root().parameter("up", {4, 8, 8}, init::normal(0.1))),
        opt(state / "optim", {}) {}
  Loss operator()(const Tensor& ids, const Tensor& y) const {
    Tensor x = tok(ids);
    Tensor f = reshape(n2(x), {16, 8});
    Tensor d = softmax(gate(f));
    Tensor u = up(x);
    Tensor xs = reshape(matmul(transpose(d, 0, 1), f), {4, 2, 8});
    Tensor o = reshape(matmul(d, reshape(matmul(xs, u), {8, 8})), {4, 4, 8});
    return cross_entropy(tok.logits(n3(o)), y);
  }
};

const std::vector<BatchField> kFields = {{"ids", DType::i32, {4, 4}}, {"y", DType::i32, {4, 4}}};
void fill(int64_t first, int64_t count, const std::vector<void*>& fields) {
  for (int64_t i = 0; i < count * 16 / 4; ++i)
    for (int f = 0; f < 2; ++f)
      static_cast<int32_t*>(fields[static_cast<size_t>(f)])[i] =
          static_cast<int32_t>((first * 4 + i) * (7 - 2 * f) % 16);
}

std::vector<double> losses_of_experts(const Mesh& words) {
  std::vector<double> out;
  distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 1);
    Experts experts(state);
    if (words.find("tp") >= 0) state.place({{"tp", "up", Shard(0)}});
    Step step = compile(state, kFields, {8, 4, 0},
                        [&](const std::vector<Tensor>& batch) {
                          Loss loss = experts(batch[0], batch[1]);
                          experts.opt.update(grad(loss, state.parameters()));
                          return loss;
                        },
                        {});
    state.materialize();
    for (int64_t i = 1; i <= 5; ++i) {
      const double loss = step.run({i, fill}).metrics.at("loss");
      if (mesh.rank == 0) out.push_back(loss);
    }
  });
  return out;
}

TEST(OwnSteps, ExpertsOnTpBesideAWholeRouter) {
  const auto one = losses_of_experts({{1}, {"dp_replicate"}});
  EXPECT_LT(one.back(), one.front());
  EXPECT_EQ(losses_of_experts({{2}, {"dp_replicate"}}), one);
  for (const Mesh& mesh : {Mesh{{2}, {"tp"}}, Mesh{{2, 2}, {"dp_shard", "tp"}}}) {
    const auto split = losses_of_experts(mesh);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(split[i], one[i], 2e-5) << text(mesh);
  }
}

// The UserError of compiling a step with this loss and these metrics.
std::string refusal(const std::function<Loss(State&, const Tensor& ids, const Tensor& y)>& function,
                    const std::function<void(State&)>& record, DType moments = DType::f32) {
  std::string out = "accepted";
  State state(solo_mesh(), 1);
  Embedding tok(state / "tok", 16, 8);
  record(state);
  AdamW opt(state / "optim", {.moments = moments});
  try {
    compile(state, kFields, {8, 4, 0},
            [&](const std::vector<Tensor>& batch) {
              Loss loss = function(state, batch[0], batch[1]);
              opt.update(grad(loss, state.parameters()));
              return loss;
            },
            {});
  } catch (const UserError& error) { out = error.what(); }
  return out;
}
Tensor logits(State& state, const Tensor& ids) {
  Tensor table = state.find_spec("tok.weight")(ids);
  Tensor x = embedding(table, ids);
  return linear(x, table, {});
}
void nothing(State&) {}

TEST(OwnSteps, AParameterOfRankZero) {
  for (DType moments : {DType::f32, DType::bf16}) {
    const std::string words = refusal(
        [](State& state, const Tensor& ids, const Tensor& y) {
          Tensor scale = state.find_spec("logit_scale")(ids);
          return cross_entropy(logits(state, ids) * scale, y);
        },
        [](State& state) { state.root().parameter("logit_scale", {}, init::ones()); }, moments);
    EXPECT_NE(words.find("own_refusals_test.cpp:"), std::string::npos) << words;
    EXPECT_NE(
        words.find("the parameter \"logit_scale\" has rank 0, and an update is made by rows, each by one "
                   "rank; give it the shape [1], which broadcasts in the same way"),
        std::string::npos)
        << words;
  }
}

TEST(OwnSteps, IntegerMetricsOfWeights) {
  auto with = [](DType dtype) {
    return refusal(
        [dtype](State& state, const Tensor& ids, const Tensor& y) {
          Tensor out = logits(state, ids);
          Tensor best = convert(apply1("argmax", {out}, {{"dim", int64_t{2}}}), DType::i32);
          metric("right", apply1("sum_lanes", {sum(convert(equal(best, y), dtype), {0, 1})}));
          return cross_entropy(out, y);
        },
        nothing);
  };
  EXPECT_EQ(with(DType::f32), "accepted");
  std::string words = with(DType::i64);
  EXPECT_EQ(words.find("[sum_lanes] own_refusals_test.cpp:"), 0u) << words;
  EXPECT_NE(words.find(": the sum over micro-batches of i64[] reads the state \"tok.weight\", which the "
                       "step replaces, and integers are summed before the step computes with its weights"),
            std::string::npos)
      << words;
  EXPECT_NE(words.find("a metric that depends on weights is summed as f32: convert it first"),
            std::string::npos)
      << words;
  words = with(DType::i32);
  EXPECT_EQ(words.find("[sum_lanes] own_refusals_test.cpp:"), 0u) << words;
  EXPECT_NE(words.find(": i32[] is summed over micro-batches; integers are summed as i64[]"),
            std::string::npos)
      << words;
}

TEST(OwnSteps, AForwardOfSeveralRanks) {
  distributed::local_mesh(2, {{2}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    State state(mesh, 1);
    Embedding tok(state / "tok", 16, 8);
    try {
      Forward forward(state, {kFields[0]}, [&](const std::vector<Tensor>& batch) { return tok(batch[0]); },
                      {});
      FAIL();
    } catch (const UserError& error) {
      const std::string words = error.what();
      EXPECT_EQ(words.find("[forward] own_refusals_test.cpp:"), 0u) << words;
      EXPECT_NE(words.find("a Forward runs on one rank, and the state is on the mesh [dp_replicate=2]; load "
                           "the checkpoint into a state of one rank"),
                std::string::npos)
          << words;
    }
  });
}

// A Session sets them; without one they are 1.
TEST(OwnSteps, ThreadsOfOptionsThatNameNone) {
  EXPECT_EQ(CompileOptions{}.threads, 1);
  set_default_threads(3);
  EXPECT_EQ(CompileOptions{}.threads, 3);
  set_default_threads(1);
}

}  // namespace
}  // namespace lockstep
