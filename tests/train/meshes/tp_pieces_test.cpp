// Products on tp cut into pieces: the same numbers, the same bits on any data mesh, and, by the schedule and
// not by a clock, collectives that travel beside products.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/ops/op.h"
#include "core/optim/adamw.h"
#include "tests/support/model_run.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

using namespace compiler;

TinyRun small(const std::string& model, int64_t micro, int64_t pieces) {
  TinyRun run;
  run.model = model;
  run.width = 32, run.context = 16, run.vocab = 40, run.heads = 4, run.kv_heads = 2, run.global = 6 * micro;
  run.micro = micro, run.mask_every = 5, run.options.tp_pieces = pieces;
  return run;
}
TinyRun on(TinyRun run, Shape shape, std::vector<std::string> names) {
  run.mesh = {shape, names};
  run.ranks = static_cast<int>(run.mesh.size());
  return run;
}
void expect_close(const TinyResult& got, const TinyResult& wanted, const std::string& what) {
  ASSERT_EQ(got.losses.size(), wanted.losses.size()) << what;
  for (size_t i = 0; i < wanted.losses.size(); ++i) {
    EXPECT_LE(relative_difference(wanted.losses[i], got.losses[i]), 2e-5) << what << ", loss " << i;
    EXPECT_LE(relative_difference(wanted.norms[i], got.norms[i]), 2e-5) << what << ", norm " << i;
  }
}

TEST(TpPieces, GiveTheNumbersOfWholeProducts) {
  for (const char* model : {"gpt", "llama"})
    for (Backend backend : {Backend::native, Backend::reference})
      for (auto [micro, pieces] : {std::pair<int64_t, int64_t>{2, 2}, {1, 4}}) {
        TinyRun run = small(model, micro, pieces), whole = small(model, micro, 1);
        run.options.backend = whole.options.backend = backend;
        const TinyResult cut = train_tiny(on(run, {2}, {"tp"})), uncut = train_tiny(on(whole, {2}, {"tp"}));
        expect_close(cut, uncut, str(model, ", ", pieces, " pieces of ", micro));
        EXPECT_NE(cut.certificate, uncut.certificate) << "another program promises other bits";
      }
}

// Whole sequences: each number is computed from the same terms in the same order, where the backend's
// products follow from their rows alone.
TEST(TpPieces, OfWholeSequencesAreEqualToTheBitByTheReference) {
  for (const char* model : {"gpt", "llama"}) {
    TinyRun run = small(model, 4, 2), whole = small(model, 4, 1);
    run.options.backend = whole.options.backend = Backend::reference;
    run.dropout = whole.dropout = 0.2;
    expect_same_bits(train_tiny(on(run, {2}, {"tp"})), train_tiny(on(whole, {2}, {"tp"})), model);
  }
}

// Encoders, two streams, and adapters beside split weights.
TEST(TpPieces, OfOtherModelsAndAdaptersAreEqualToTheBitByTheReference) {
  const Json sizes = {{"vocab", 40}, {"context", 16}, {"width", 32}, {"depth", 1}, {"heads", 4}};
  Json t5 = sizes;
  t5.update({{"source_context", 6}, {"buckets", 8}, {"max_distance", 6}, {"hidden", 40}});
  std::vector<ModelRun> runs{{.kind = "bert", .options = sizes}, {.kind = "t5", .options = t5}};
  runs.push_back({.kind = "gpt", .options = sizes, .lora = LoraOptions{.rank = 2}});
  for (ModelRun& run : runs) {
    run.mesh = {{2}, {"tp"}}, run.backend = Backend::reference;
    run.micro = 2, run.global = 4, run.steps = 2;
    const ModelResult whole = train_model(run);
    run.tp_pieces = 2;
    const ModelResult cut = train_model(run);
    const std::string what = run.lora ? "adapters" : run.kind;
    EXPECT_GT(cut.pieces, 0) << what;
    EXPECT_EQ(cut.losses, whole.losses) << what;
    EXPECT_EQ(cut.hash, whole.hash) << what;
  }
}

TEST(TpPieces, DataRanksChangeNoBit) {
  for (const char* model : {"gpt", "llama"})
    for (int64_t micro : {1, 2}) {
      TinyRun run = small(model, micro, 2);
      run.dropout = 0.1;
      const TinyResult one = train_tiny(on(run, {2}, {"tp"}));
      for (int64_t data : {2, 3})
        for (const char* dim : {"dp_replicate", "dp_shard"})
          expect_same(train_tiny(on(run, {data, 2}, {dim, "tp"})), one,
                      str(model, " on ", data, " of ", dim));
    }
}

TEST(TpPieces, OrderAndFusionChangeNoBit) {
  for (int64_t micro : {1, 2}) {
    TinyRun run = on(small("llama", micro, 2), {2}, {"tp"});
    const TinyResult wanted = train_tiny(run);
    TinyRun other = run;
    other.options.skip_passes = {"fill_waits"};
    expect_same_bits(train_tiny(other), wanted, "in the order of the trace");
    other.options.skip_passes = {"mark_views"};
    expect_same_bits(train_tiny(other), wanted, "each piece in a buffer of its own");
    other = run;
    other.options.fusion = false;
    expect_same_bits(train_tiny(other), wanted, "an op at a time");
  }
}

// What the backward pass computes again is computed of pieces of what was kept, and saves as much as of whole
// values.
TEST(TpPieces, RecomputationChangesNoBitAndSavesAsMuch) {
  for (int64_t micro : {1, 2}) {
    TinyRun run = on(small("llama", micro, 2), {2}, {"tp"});
    run.depth = 6, run.steps = 2;
    const TinyResult wanted = train_tiny(run);
    run.options.memory_budget = kRecomputeFull;
    const TinyResult again = train_tiny(run);
    expect_same(again, wanted, "recomputed");
    run.options.tp_pieces = 1;
    const TinyResult whole = train_tiny(run);
    EXPECT_GT(again.recompute.values, 0) << micro;
    EXPECT_LT(static_cast<double>(again.arena), 1.1 * static_cast<double>(whole.arena)) << micro;
    EXPECT_LT(again.arena, wanted.arena) << micro;
  }
}

TEST(TpPieces, WithoutSequenceParallelism) {
  TinyRun run = small("gpt", 2, 2);
  run.options.sequence_parallel = false;
  const TinyResult one = train_tiny(on(run, {2}, {"tp"}));
  expect_same(train_tiny(on(run, {2, 2}, {"dp_replicate", "tp"})), one, "two data ranks");
  run.options.tp_pieces = 1;
  expect_close(one, train_tiny(on(run, {2}, {"tp"})), "whole products");
  // Each rank has the whole sequence: 12 tokens are cut into 4, which they are not on two ranks.
  TinyRun single = small("gpt", 1, 4);
  single.context = 12, single.steps = 2, single.options.sequence_parallel = false;
  const TinyResult cut = train_tiny(on(single, {2}, {"tp"}));
  single.options.tp_pieces = 1;
  const TinyResult uncut = train_tiny(on(single, {2}, {"tp"}));
  expect_close(cut, uncut, "a single sequence");
  EXPECT_NE(cut.certificate, uncut.certificate);
}

// By rates at which a product takes as long as a collective.
StepPlan plan_of(int64_t micro, int64_t pieces, std::vector<std::string> skipped = {}) {
  LiveMesh mesh = solo_mesh();
  mesh.words = Mesh{{1, 2}, {"dp_replicate", "tp"}};
  State state(mesh, 1);
  auto model = models::build(state.root(), "llama",
                             {{"vocab", 64}, {"context", 32}, {"width", 64}, {"depth", 3}, {"heads", 4}});
  AdamW adamw(state / "optim", {});
  state.place_by_default(model.placements);
  CompileOptions options;
  options.tp_pieces = pieces;
  options.skip_passes = std::move(skipped);
  options.travel.flops = 6e9;
  const Shape shape{micro, 32};
  return plan_step(
      state, mesh.words, {{"ids", DType::i32, shape}, {"targets", DType::i32, shape}}, {4 * micro, micro, 0},
      [&](const std::vector<Tensor>& batch) {
        Loss loss = cross_entropy(model.logits(batch[0], true), batch[1]);
        adamw.update(grad(loss, state.parameters()));
        return loss;
      },
      options);
}

// Collectives of the body in the order of their starts: the products that stand between start and wait.
struct Flight {
  size_t start = 0;
  std::string layer;
  int forward = 0, backward = 0;  // products of each
};
std::vector<Flight> flights_of(const Graph& body) {
  std::vector<Flight> out;
  std::map<ValueId, Flight> open;
  for (NodeId n : body.node_ids()) {
    const Node& node = body.node(n);
    if (op_row(node.op).half == CollectiveHalf::start)
      open[node.outputs[0]] = {n.index(), node.at.scope};
    else if (op_row(node.op).half == CollectiveHalf::wait)
      out.push_back(open.at(node.inputs[0])), open.erase(node.inputs[0]);
    for (auto& [handle, flight] : open) {
      flight.forward += node.op == ops::linear;
      flight.backward += node.op == ops::dot;
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  return out;
}
int beside_products(const std::vector<Flight>& flights, int Flight::* products) {
  return static_cast<int>(
      std::count_if(flights.begin(), flights.end(), [&](const Flight& f) { return f.*products > 0; }));
}

// Three layers: a gather and an exchange around attention, and around the feed-forward.
TEST(TpPieces, TravelBesideProductsOfOtherPieces) {
  const auto whole = flights_of(plan_of(2, 1).body);
  EXPECT_EQ(beside_products(whole, &Flight::forward), 0) << "whole products";
  for (auto [micro, pieces] : {std::pair<int64_t, int64_t>{2, 2}, {1, 2}, {4, 4}, {1, 4}}) {
    const auto flights = flights_of(plan_of(micro, pieces).body);
    // No tensor travels twice. Of the pieces of each of the 12 all but one travel beside products. Of a
    // single sequence those of the backward pass are gathered in pieces, too: two in each layer, one of the
    // embedding.
    const int64_t cut = micro == 1 ? 12 + 7 : 12;
    EXPECT_EQ(flights.size(), whole.size() + cut * (pieces - 1)) << pieces << " pieces of " << micro;
    EXPECT_GE(beside_products(flights, &Flight::forward), 12 * (pieces - 1))
        << pieces << " pieces of " << micro;
  }
}

TEST(FillWaits, ProductsOfGradientsOfWeightsStandBesideCollectivesOfTheBackwardPass) {
  const auto filled = flights_of(plan_of(2, 1).body),
             as_traced = flights_of(plan_of(2, 1, {"fill_waits"}).body);
  EXPECT_EQ(filled.size(), as_traced.size());
  // Two gathers and two exchanges of each of three layers.
  EXPECT_GE(beside_products(filled, &Flight::backward), 12);
  EXPECT_LE(beside_products(as_traced, &Flight::backward), 6);
}

std::string refusal(const TinyRun& run) {
  try {
    train_tiny(run);
  } catch (const UserError& error) { return error.what(); }
  return "";
}

TEST(TpPiecesErrors, WhatDividesNeitherSequencesNorTokens) {
  EXPECT_EQ(refusal(on(small("gpt", 2, 3), {2}, {"tp"})),
            "[tp] compile.tp_pieces is 3, and a micro-batch of 2 sequences has no 3 equal parts of whole "
            "sequences; choose a divisor of batch.micro, or 1 for whole products");
  EXPECT_EQ(
      refusal(on(small("gpt", 1, 3), {2}, {"tp"})),
      "[tp] compile.tp_pieces is 3, and a sequence of 16 tokens has no 6 equal parts (3 pieces on each of 2 "
      "ranks of tp); choose a number that divides, or 1 for whole products");
  TinyRun whole = small("gpt", 1, 3);
  whole.options.sequence_parallel = false;
  EXPECT_EQ(refusal(on(whole, {2}, {"tp"})),
            "[tp] compile.tp_pieces is 3, and a sequence of 16 tokens has no 3 equal parts; choose a number "
            "that divides, or 1 for whole products");
  EXPECT_EQ(refusal(on(small("gpt", 2, 3), {2}, {"dp_replicate"})), "")
      << "without tp there is nothing to cut";
}

}  // namespace
}  // namespace lockstep::tests
