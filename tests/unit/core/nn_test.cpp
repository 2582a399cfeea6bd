// core/nn: names, shapes, initial values on any mesh, placements, and what the models write into a graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/ir/parse.h"
#include "core/ir/print.h"
#include "core/ir/walk.h"
#include "core/nn/metric.h"
#include "tests/support/nn_fixture.h"

using namespace lockstep;
using lockstep::testing::fqns;
using lockstep::testing::mesh_of;
using lockstep::testing::Tracing;

namespace {
int64_t parameter_count(const State& state) {
  int64_t n = 0;
  for (const Parameter& p : state.parameters()) n += numel(p.shape());
  return n;
}

std::string listing(const State& state) {
  std::string out;
  for (const Spec& spec : state.specs()) out += str(spec.fqn, " ", shape_text(spec.dtype, spec.shape), "\n");
  return out;
}

// A model of both kinds of split: an odd width of rows, packed q k v, a scalar, moments.
void small_model(State& state) {
  models::Gpt gpt(state.root(), {.vocab = 11, .context = 5, .width = 12, .depth = 2, .heads = 2});
  (state / "extra").parameter("gain", {}, init::normal(1));
  (state / "extra").parameter("odd", {7, 3}, init::normal(1));
  for (const Parameter& p : state.parameters()) (state / "optim").moment(p, "exp_avg");
  state.place_by_default(models::Gpt::placements());
}
}  // namespace

TEST(Models, GptNamesAndShapesAreTheContract) {
  State state(solo_mesh(), 1);
  models::Gpt gpt(state.root(), {.vocab = 256, .context = 64, .width = 32, .depth = 2, .heads = 4});
  std::string expected = "token.weight f32[256,32]\nposition.weight f32[64,32]\n";
  for (int i = 0; i < 2; ++i) {
    std::string at = str("blocks.", i, ".");
    expected += at + "norm1.weight f32[32]\n" + at + "norm1.bias f32[32]\n";
    expected += at + "attn.qkv.weight f32[96,32]\n" + at + "attn.qkv.bias f32[96]\n" + at +
                "attn.out.weight f32[32,32]\n" + at + "attn.out.bias f32[32]\n";
    expected += at + "norm2.weight f32[32]\n" + at + "norm2.bias f32[32]\n";
    expected += at + "mlp.up.weight f32[128,32]\n" + at + "mlp.up.bias f32[128]\n" + at +
                "mlp.down.weight f32[32,128]\n" + at + "mlp.down.bias f32[32]\n";
  }
  expected += "norm.weight f32[32]\nnorm.bias f32[32]\n";
  EXPECT_EQ(listing(state), expected);
}

TEST(Models, LlamaNamesAndShapesAreTheContract) {
  State state(solo_mesh(), 1);
  models::Llama llama(
      state.root(),
      {.vocab = 256, .context = 64, .width = 32, .depth = 2, .heads = 4, .kv_heads = 2, .hidden = 80});
  std::string expected = "token.weight f32[256,32]\n";
  for (int i = 0; i < 2; ++i) {
    std::string at = str("blocks.", i, ".");
    expected += at + "norm1.weight f32[32]\n";
    expected += at + "attn.q.weight f32[32,32]\n" + at + "attn.k.weight f32[16,32]\n" + at +
                "attn.v.weight f32[16,32]\n" + at + "attn.out.weight f32[32,32]\n";
    expected += at + "norm2.weight f32[32]\n";
    expected += at + "mlp.gate.weight f32[80,32]\n" + at + "mlp.up.weight f32[80,32]\n" + at +
                "mlp.down.weight f32[32,80]\n";
  }
  expected += "norm.weight f32[32]\nhead.weight f32[256,32]\n";
  EXPECT_EQ(listing(state), expected);
}

TEST(Models, ParameterCountsAreThoseOfThePublishedModels) {
  State gpt2(solo_mesh(), 1), tiny_llama(solo_mesh(), 1), chosen(solo_mesh(), 1);
  models::Gpt gpt(gpt2.root(), {.vocab = 50257, .context = 1024, .width = 768, .depth = 12, .heads = 12});
  EXPECT_EQ(parameter_count(gpt2), 124439808);
  models::Llama llama(tiny_llama.root(), {.vocab = 32000,
                                          .context = 2048,
                                          .width = 2048,
                                          .depth = 22,
                                          .heads = 32,
                                          .kv_heads = 4,
                                          .hidden = 5632});
  EXPECT_EQ(parameter_count(tiny_llama), 1100048384);
  // kv_heads 0 is heads; hidden 0 is 8/3 of the width in steps of 64: 341.3 -> 384.
  models::Llama defaults(chosen.root(), {.width = 128, .depth = 1, .heads = 4});
  EXPECT_EQ(chosen.find_spec("blocks.0.attn.k.weight").shape(), (Shape{128, 128}));
  EXPECT_EQ(chosen.find_spec("blocks.0.mlp.gate.weight").shape(), (Shape{384, 128}));
}

TEST(Models, FactoryGivesTheSameModelByKind) {
  for (std::string kind : {"gpt", "llama"}) {
    State direct(solo_mesh(), 1), made(solo_mesh(), 1);
    if (kind == "gpt")
      models::Gpt(direct.root(), {.width = 32, .depth = 1, .dropout = 0.5});
    else
      models::Llama(direct.root(), {.width = 32, .depth = 1, .kv_heads = 2, .dropout = 0.5});
    Json options = {{"width", 32}, {"depth", 1}, {"dropout", 0.5}};
    if (kind == "llama") options["kv_heads"] = 2;
    auto model = models::build(made.root(), kind, options);
    EXPECT_EQ(listing(direct), listing(made));
    made.place_by_default(model.placements);  // each row matches
    Tracing training(2, 7), evaluation(2, 7);
    EXPECT_EQ(model.logits(training.ids, true).shape(), (Shape{2, 7, 256}));
    EXPECT_EQ(model.logits(evaluation.ids, false).shape(), (Shape{2, 7, 256}));
    EXPECT_EQ(training.count("dropout"), 3);
    EXPECT_EQ(evaluation.count("dropout"), 0);
    EXPECT_FALSE(Evaluation::active());
    Tracing within(2, 7);
    {
      Evaluation evaluation_of_the_caller;
      model.logits(within.ids, true);
      EXPECT_TRUE(Evaluation::active());
    }
    EXPECT_EQ(within.count("dropout"), 0);
  }
}

TEST(Init, FillFollowsPhiloxAtEveryElement) {
  State state(solo_mesh(), 42);
  state.root().parameter("w", {5, 7}, init::normal(0.5));
  state.root().parameter("scalar", {}, init::normal(0.5));
  state.root().buffer("half", DType::bf16, {3}, init::normal(0.5));
  state.root().buffer("wide", DType::f64, {3}, init::ones());
  state.materialize();
  for (int64_t i = 0; i < 35; ++i)
    EXPECT_EQ(state.array("w").data.as<float>()[i],
              static_cast<float>(0.5 * philox::normal(42, hash64("w"), 0, static_cast<uint64_t>(i))))
        << i;
  EXPECT_EQ(state.array("scalar").data.as<float>()[0],
            static_cast<float>(0.5 * philox::normal(42, hash64("scalar"), 0, 0)));
  EXPECT_EQ(state.array("half").data.as<bf16>()[1].bits,
            bf16(static_cast<float>(0.5 * philox::normal(42, hash64("half"), 0, 1))).bits);
  EXPECT_EQ(state.array("wide").data.as<double>()[2], 1.0);
}

TEST(Init, StatisticsAndRules) {
  State state(solo_mesh(), 1337), other(solo_mesh(), 1338);
  models::Gpt gpt(state.root(), {.vocab = 256, .context = 64, .width = 64, .depth = 2, .heads = 4});
  models::Gpt again(other.root(), {.vocab = 256, .context = 64, .width = 64, .depth = 2, .heads = 4});
  state.materialize();
  other.materialize();
  for (const Array* array : std::as_const(state).arrays()) {
    const float* x = array->data.as<float>();
    int64_t n = array->local_numel();
    bool norm = array->fqn.find("norm") != std::string::npos, bias = array->fqn.ends_with(".bias");
    if (norm || bias) {
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], bias ? 0.0f : 1.0f) << array->fqn;
      continue;
    }
    bool residual = array->fqn.ends_with("attn.out.weight") || array->fqn.ends_with("mlp.down.weight");
    double expected = residual ? 0.02 / std::sqrt(4.0) : 0.02, mean = 0, square = 0;
    for (int64_t i = 0; i < n; ++i) mean += x[i], square += double{x[i]} * x[i];
    double root_n = std::sqrt(static_cast<double>(n));
    EXPECT_NEAR(mean / n, 0, 4 * expected / root_n) << array->fqn;  // 4 standard errors
    EXPECT_NEAR(std::sqrt(square / n), expected, 4 * expected / root_n) << array->fqn;
    EXPECT_NE(x[0], other.array(array->fqn).data.as<float>()[0])
        << "the seed plays no part in " << array->fqn;
  }
  EXPECT_NE(state.array("blocks.0.mlp.up.weight").data.as<float>()[0],
            state.array("blocks.1.mlp.up.weight").data.as<float>()[0]);
}

TEST(Init, EqualOnAnyMesh) {
  State whole(solo_mesh(), 7);
  small_model(whole);
  whole.materialize();
  const std::vector<std::pair<Shape, std::vector<std::string>>> meshes = {
      {{1}, {"dp_replicate"}},
      {{3}, {"dp_replicate"}},
      {{2}, {"dp_shard"}},
      {{3}, {"dp_shard"}},
      {{7}, {"dp_shard"}},
      {{2, 3}, {"dp_shard", "tp"}},
      {{2, 3, 2}, {"dp_replicate", "dp_shard", "tp"}},
      {{16}, {"dp_shard"}}};
  for (const auto& [shape, names] : meshes) {
    std::map<std::string, std::vector<int>> held;  // how many ranks hold each element
    int64_t fullest = 0;
    for (int64_t rank = 0; rank < numel(shape); ++rank) {
      State state(mesh_of(shape, names, rank), 7);
      small_model(state);
      state.materialize();
      int64_t bytes = 0;
      for (const Array* array : state.arrays()) {
        bytes += static_cast<int64_t>(array->local_bytes());
        const float* expected = whole.array(array->fqn).data.as<float>();
        auto& count = held[array->fqn];
        count.resize(static_cast<size_t>(numel(array->shape)));
        for (const Piece& piece : array->pieces)
          for_each_run(piece.global, lockstep::whole(array->shape), piece.frame(array->local_shape),
                       [&](int64_t global, int64_t local, int64_t n) {
                         for (int64_t i = 0; i < n; ++i) {
                           ASSERT_EQ(array->data.as<float>()[local + i], expected[global + i])
                               << array->fqn << " element " << global + i << " on rank " << rank << " of "
                               << text(Mesh{shape, names});
                           ++count[static_cast<size_t>(global + i)];
                         }
                       });
      }
      fullest = std::max(fullest, bytes);
      EXPECT_LE(bytes, state.bytes_per_rank());
      if (rank == 0) { EXPECT_EQ(bytes, state.bytes_per_rank()); }
    }
    for (const auto& [fqn, counts] : held)
      for (size_t i = 0; i < counts.size(); ++i)
        EXPECT_GE(counts[i], 1) << fqn << " element " << i << " is nowhere on " << text(Mesh{shape, names});
    if (names[0] == "dp_shard" && shape.size() == 1) {
      for (int n : held["token.weight"]) EXPECT_EQ(n, 1);
      EXPECT_LT(fullest, std::as_const(whole).bytes_per_rank());  // no rank holds the whole
    }
  }
}

TEST(Init, StartsOverInPlace) {
  State state(solo_mesh(), 7);
  small_model(state);
  state.materialize();
  Array* token = state.find("token.weight");
  ASSERT_NE(token, nullptr);
  const void* data = token->data.data();
  float first = token->data.as<float>()[0];
  token->data.as<float>()[0] = 9;
  state.allocate();
  EXPECT_EQ(token->data.as<float>()[0], 9);
  state.materialize();
  EXPECT_EQ(token->data.as<float>()[0], first);
  EXPECT_EQ(state.find("token.weight"), token);
  EXPECT_EQ(token->data.data(), data);
  EXPECT_EQ(state.find("tokens.weight"), nullptr);
  EXPECT_EQ(&state.array("token.weight"), token);
}

TEST(Placements, TheNameOfTheDimSaysTheStrategy) {
  State state(mesh_of({2, 3, 2}, {"dp_replicate", "dp_shard", "tp"}), 7);
  small_model(state);
  auto layout = [&](std::string_view fqn) { return text(state.layout(fqn), state.mesh().words); };
  EXPECT_EQ(layout("token.weight"), "{dp_shard: Shard(0)}");
  EXPECT_EQ(layout("optim.token.weight.exp_avg"), "{dp_shard: Shard(0), dp_replicate: Shard(0)}");
  EXPECT_EQ(layout("blocks.1.attn.qkv.bias"), "{tp: Shard(0,groups=3), dp_shard: Shard(0)}");
  EXPECT_EQ(layout("blocks.0.mlp.down.weight"), "{tp: Shard(1), dp_shard: Shard(0)}");
  EXPECT_EQ(layout("optim.blocks.0.mlp.down.weight.exp_avg"),
            "{tp: Shard(1), dp_shard: Shard(0), dp_replicate: Shard(0)}");
  EXPECT_EQ(layout("blocks.0.mlp.down.bias"), "{dp_shard: Shard(0)}");
  EXPECT_EQ(layout("extra.gain"), "{}");  // 0 dims: replicated
  EXPECT_EQ(layout("optim.extra.gain.exp_avg"), "{}");
}

TEST(Placements, SizeOneDimsAreKeptAndMissingOnesIgnored) {
  State state(mesh_of({1}, {"dp_replicate"}), 7);
  small_model(state);  // its tp rows find no tp
  EXPECT_EQ(state.layout("blocks.0.attn.qkv.weight"), Layout{});
  EXPECT_EQ(text(state.layout("optim.token.weight.exp_avg"), state.mesh().words), "{dp_replicate: Shard(0)}");
}

TEST(Placements, RulesOverrideAndMomentsFollow) {
  State state(mesh_of({2, 2}, {"dp_shard", "tp"}), 7);
  small_model(state);
  state.place({{"tp", "blocks.*.mlp.up.*", Replicate()},
               {"dp_shard", "norm.{weight,bias}", Replicate()},
               {"tp", "optim.token.weight.exp_avg", Shard(1)}});
  auto layout = [&](std::string_view fqn) { return text(state.layout(fqn), state.mesh().words); };
  EXPECT_EQ(layout("blocks.0.mlp.up.weight"), "{dp_shard: Shard(0)}");  // place() beats the model's table
  EXPECT_EQ(layout("optim.blocks.0.mlp.up.weight.exp_avg"), "{dp_shard: Shard(0)}");
  EXPECT_EQ(layout("blocks.0.mlp.down.weight"),
            "{tp: Shard(1), dp_shard: Shard(0)}");  // the table still holds elsewhere
  EXPECT_EQ(layout("norm.weight"), "{}");
  EXPECT_EQ(layout("optim.norm.weight.exp_avg"), "{}");
  EXPECT_EQ(layout("optim.token.weight.exp_avg"), "{tp: Shard(1), dp_shard: Shard(0)}");
  EXPECT_EQ(layout("token.weight"), "{dp_shard: Shard(0)}");
}

TEST(Placements, EverythingMeansScalarsToo) {
  State state(mesh_of({2}, {"dp_shard"}), 7);
  small_model(state);
  state.place({{"dp_shard", "**", Shard(0)}});
  EXPECT_EQ(state.layout("extra.gain"), Layout{});
  EXPECT_EQ(text(state.layout("extra.odd"), state.mesh().words), "{dp_shard: Shard(0)}");
}

TEST(States, ParametersAreTheTrainableOnesInOrder) {
  State state(solo_mesh(), 1);
  Scope at = state / "a";
  at.parameter("x", {2}, init::ones());
  at.frozen("y", {2}, init::ones());
  at.buffer("z", DType::i64, {2}, init::zeros());
  (at / 3).parameter("w", {2}, init::ones());
  (state / "optim").moment(state.find_spec("a.x"), "m");
  EXPECT_EQ(fqns(state), (std::vector<std::string>{"a.x", "a.y", "a.z", "a.3.w", "optim.a.x.m"}));
  ASSERT_EQ(state.parameters().size(), 2u);
  EXPECT_EQ(state.parameters()[0].fqn(), "a.x");
  EXPECT_EQ(state.parameters()[1].fqn(), "a.3.w");
  EXPECT_EQ(state.find_spec("optim.a.x.m").spec().of, "a.x");
  EXPECT_FALSE(state.find_spec("a"));
}

TEST(Trace, GptWritesAGraphThatPrintsAndParsesBack) {
  State state(solo_mesh(), 1);
  models::Gpt gpt(state.root(),
                  {.vocab = 50, .context = 8, .width = 12, .depth = 2, .heads = 2, .dropout = 0.1});
  Tracing tracing(3, 5);  // fewer tokens than the context
  Tensor logits = gpt(tracing.ids);
  EXPECT_EQ(logits.text(), "f32[3,5,50]");
  tracing.graph().add_output(OutputKind::value, "logits", logits.id());
  verify(tracing.graph(), "trace");
  std::string printed = print(prune(tracing.graph()));  // values numbered as the parser numbers them
  EXPECT_EQ(print(parse_graph(printed)), printed);
  EXPECT_NE(printed.find("\"blocks.1.attn.qkv\""), std::string::npos) << printed;  // layers name their nodes
  EXPECT_EQ(tracing.count("dropout"), 5);
  EXPECT_EQ(tracing.count("sdpa"), 2);
  EXPECT_EQ(tracing.count("layer_norm"), 5);
  EXPECT_EQ(tracing.builder->scope, "");
  std::set<int64_t> streams;
  for (const Node& node : tracing.graph().nodes)
    if (node.op == "dropout") streams.insert(node.attrs.integer("stream"));
  EXPECT_EQ(streams.size(), 5u);
  // Every parameter is read, in the order of recording, and once: the tied table is one input.
  std::vector<std::string> read;
  for (const auto& input : tracing.graph().inputs)
    if (input.kind == InputKind::state) read.push_back(input.name);
  EXPECT_EQ(read, fqns(state));
}

TEST(Trace, LlamaSharesKeysAndValuesAmongHeads) {
  State state(solo_mesh(), 1);
  models::Llama llama(state.root(), {.vocab = 50,
                                     .context = 8,
                                     .width = 24,
                                     .depth = 1,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .hidden = 40,
                                     .rope_theta = 500});
  Tracing tracing(1, 8);
  EXPECT_EQ(llama(tracing.ids).shape(), (Shape{1, 8, 50}));
  verify(tracing.graph(), "trace");
  for (const Node& node : tracing.graph().nodes) {
    if (node.op == "rope") { EXPECT_EQ(node.attrs.number("theta"), 500); }
    if (node.op != "sdpa") continue;
    EXPECT_EQ(tracing.graph()[node.inputs[0]].shape, (Shape{1, 8, 4, 6}));
    EXPECT_EQ(tracing.graph()[node.inputs[1]].shape, (Shape{1, 8, 2, 6}));
    EXPECT_EQ(node.at.scope, "blocks.0.attn");
  }
  EXPECT_EQ(tracing.count("rope"), 2);
  EXPECT_EQ(tracing.count("rms_norm"), 3);
}

TEST(Trace, LayersNameTheLineThatCalledThem) {
  State state(solo_mesh(), 1);
  Linear layer(state / "head", 4, 3);
  Tracing tracing(2, 4);
  int line = __LINE__ + 1;
  Tensor y = layer(convert(tracing.ids, DType::f32));
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  const Node& node = tracing.graph().nodes.back();
  EXPECT_EQ(node.op, ops::linear);
  EXPECT_EQ(node.at.text(), str("nn_test.cpp:", line, " (head)"));
}

TEST(Trace, MetricsAreOutputs) {
  Tracing tracing(2, 4);
  Tensor total = sum(convert(tracing.ids, DType::f32), {0, 1});
  metric("total", total);
  EXPECT_EQ(tracing.graph().find_output("total"), total.id());
}
