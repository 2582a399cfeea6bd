// Sparse tables whose rows lie split over dp_shard: the same bits, a share of the bytes.
#include <gtest/gtest.h>

#include "tests/train/tables/sparse_clicks.h"

namespace lockstep {
namespace {

// Where weights are gathered, what is recomputed and who computes changes nothing; more ranks than rows of
// ids, than micro-batches.
TEST(SplitTables, EqualBitsHoweverSplitTablesAreRun) {
  const Make make = clipped().at("sparse_adam");
  const Mesh alone{{1}, {"dp_replicate"}};
  const Result one = train(make, alone);
  auto with = [](auto set) {
    CompileOptions options;
    set(options);
    return options;
  };
  for (const CompileOptions& options : {with([](CompileOptions& o) { o.gather = GatherWhen::layers; }),
                                        with([](CompileOptions& o) { o.gather = GatherWhen::step; }),
                                        with([](CompileOptions& o) { o.memory_budget = kRecomputeFull; }),
                                        with([](CompileOptions& o) { o.backend = Backend::eager; })})
    for (const Mesh& words :
         {Mesh{{3}, {"dp_shard"}}, Mesh{{7}, {"dp_shard"}}, Mesh{{2, 4}, {"dp_replicate", "dp_shard"}}}) {
      const Result many = train(make, words, {.options = options});
      EXPECT_EQ(one.losses, many.losses) << text(words);
      EXPECT_EQ(one.hash, many.hash) << text(words);
      const bool same = one.certificate == many.certificate;
      EXPECT_TRUE(same || options.backend == Backend::eager) << text(words);
    }
  const CompileOptions slow = with([](CompileOptions& o) { o.backend = Backend::reference; });
  const Result judged = train(make, alone, {.options = slow}),
               split = train(make, {{2}, {"dp_shard"}}, {.options = slow});
  EXPECT_EQ(judged.losses, split.losses);
  EXPECT_EQ(judged.hash, split.hash);
}

// The ids of all ranks are gathered for a micro-batch that all compute again; tables that are split, whole,
// and one of each.
TEST(SplitTables, AMicroBatchIsComputedAgainAlike) {
  const Make make = clipped().at("sparse_adam");
  const Result one = train(make, {{1}, {"dp_replicate"}});
  for (const GatherWhen when : {GatherWhen::step, GatherWhen::micro_batch, GatherWhen::layers})
    for (const Mesh& words :
         {Mesh{{3}, {"dp_shard"}}, Mesh{{7}, {"dp_shard"}}, Mesh{{2, 2}, {"dp_replicate", "dp_shard"}}}) {
      How how{.rules = {{"dp_shard", "bags.weight", Replicate()}}, .recompute = true};
      how.options.gather = when;
      const Result many = train(make, words, how);
      EXPECT_EQ(one.losses, many.losses) << text(words);
      EXPECT_EQ(one.hash, many.hash) << text(words);
      EXPECT_EQ(train(make, words, {.zero = 2, .recompute = true}).hash, one.hash) << text(words);
    }
}

// A rank has its share of each table and of its moments, as a rule says or ZeRO 3; a whole table lies beside
// a split one.
TEST(SplitTables, ARankHasItsShare) {
  const Result one = train(clipped().at("sparse_adam"), {{1}, {"dp_replicate"}});
  struct Case {
    int zero;
    std::vector<PlacementRule> rules;
    int64_t words, bags;  // rows of the last of 4 ranks
  };
  for (const Case& each : std::vector<Case>{{3, {}, 7, 7},
                                            {2, {}, kWords, kWords},
                                            {3, {{"dp_shard", "bags.weight", Replicate()}}, 7, kWords},
                                            {1, {{"dp_shard", "words.weight", Shard(0)}}, 7, kWords}}) {
    const Result many =
        train(clipped().at("sparse_adam"), {{4}, {"dp_shard"}}, {.zero = each.zero, .rules = each.rules});
    EXPECT_EQ(one.hash, many.hash);
    EXPECT_EQ(one.certificate, many.certificate);
    for (const char* moment : {"", "exp_avg", "exp_avg_sq"})
      for (const auto& [table, rows] : {std::pair{"words.weight", each.words}, {"bags.weight", each.bags}}) {
        const std::string fqn = *moment ? str("optim.", table, ".", moment) : table;
        EXPECT_EQ(many.last_rank_bytes.at(fqn), rows * kWidth * 4) << fqn << " zero " << each.zero;
      }
  }
}

// Fewer rows than ranks, and one id for all.
TEST(SplitTables, SomeRanksOwnNoRow) {
  auto last = [](const Mesh& words) {
    std::string out;
    distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
      State state(mesh, 3);
      const Embedding table(state / "table", 3, kWidth, EmbeddingOptions{init::normal(0.3), true});
      SparseAdam adam(state / "optim", {.lr = 0.1});
      Step step =
          compile(state, kFields, {kGlobal, kMicro, 0},
                  [&](const Batch& b) {
                    Loss loss{sum(square(table(b[0] * 0 + 1)), {0, 1, 2}), full(b[0], {}, 1, DType::i64)};
                    adam.update(grad(loss, state.parameters()));
                    return loss;
                  },
                  {});
      state.materialize();
      for (int64_t i = 1; i <= 3; ++i)
        step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                    fill(i, first, count, to);
                  }});
      const std::string hash = state_hash(std::as_const(state).arrays(), mesh);
      if (mesh.rank == 0) out = hash + step.certificate();
    });
    return out;
  };
  EXPECT_EQ(last({{1}, {"dp_replicate"}}), last({{5}, {"dp_shard"}}));
}

// Validation reads the same tables, and ids that a computation makes.
TEST(SplitTables, EvaluationReadsThemAsTheyLie) {
  auto loss_on = [](const Mesh& words) {
    double out = 0;
    distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
      State state(mesh, 3);
      state.zero(3);
      const Clicks model(state, true);
      Step step = compile(state, kFields, {kGlobal, kMicro, 0},
                          [&](const Batch& b) {
                            Batch shifted = b;
                            shifted[0] = convert(convert(b[0], DType::f32) * 1.5, DType::i64);
                            return model.loss(shifted);
                          },
                          {});
      state.materialize();
      const auto result = step.run(
          {1, [](int64_t first, int64_t count, const std::vector<void*>& to) { fill(1, first, count, to); }});
      if (mesh.rank == 0) out = result.metrics.at("loss");
    });
    return out;
  };
  const double one = loss_on({{1}, {"dp_replicate"}});
  EXPECT_GT(one, 0);
  EXPECT_EQ(one, loss_on({{3}, {"dp_shard"}}));
  EXPECT_EQ(one, loss_on({{2, 2}, {"dp_replicate", "dp_shard"}}));
}

}  // namespace
}  // namespace lockstep
