// What cannot have sparse tables says so: each refusal on its words. And a step whose rows are not gathered
// does not compile.
#include <gtest/gtest.h>

#include "compiler/codegen/target.h"
#include "compiler/compile/compile.h"
#include "compiler/partition/placements.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ir/walk.h"
#include "core/nn/layers.h"
#include "core/optim/average.h"
#include "core/optim/muon.h"
#include "core/optim/rowwise_adagrad.h"
#include "core/optim/sgd.h"
#include "core/optim/sparse_adam.h"

namespace lockstep {
namespace {
using namespace compiler;
using Batch = std::vector<Tensor>;

constexpr int64_t kRows = 7, kWidth = 4;
const std::vector<BatchField> kFields{{"ids", DType::i32, {2, 3}}};

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const UserError& error) { return error.what(); }
  return "";
}
void expect_all(const std::string& said, std::initializer_list<const char*> words) {
  for (const char* each : words) EXPECT_NE(said.find(each), std::string::npos) << each << "\nin: " << said;
}

LiveMesh live(const Mesh& words) {
  LiveMesh out = solo_mesh();
  out.words = words;
  return out;
}
struct Setting {
  explicit Setting(const Mesh& words = {{1}, {"dp_replicate"}})
      : mesh(words),
        state(live(words), 1),
        table(state / "table", kRows, kWidth, EmbeddingOptions{.sparse = true}) {}
  Loss loss(const Batch& b) const {
    return {sum(square(table(b[0])), {0, 1, 2}), full(b[0], {}, 1, DType::i64)};
  }
  StepPlan plan(const StepFunction& function, const CompileOptions& options = {}) {
    return plan_step(state, mesh, kFields, {4, 2, 0}, function, options);
  }
  StepFunction step(Optimizer& optimizer) {
    return [&](const Batch& b) {
      Loss made = loss(b);
      optimizer.update(grad(made, state.parameters()));
      return made;
    };
  }
  Mesh mesh;
  State state;
  Embedding table;
};

TEST(SparseRefusals, AReaderOfTheWholeTableIsNamed) {
  Setting s;
  Sgd sgd(s.state / "optim");
  expect_all(refusal([&] {
               s.plan([&](const Batch& b) {
                 Loss made = s.loss(b);
                 made.sum += sum(square(s.table.logits(s.table(b[0]))));
                 sgd.update(grad(made, s.state.parameters()));
                 return made;
               });
             }),
             {"[linear] ", "sparse_refusals_test.cpp:", "(table)",
              "reads the whole of the sparse table \"table.weight\"",
              "only by embedding(), embedding_bag() or take()", "make the table dense"});
  expect_all(refusal([&] {
               s.plan([&](const Batch& b) {
                 Loss made = s.loss(b);
                 made.sum += 0.1 * sum(square(s.table.weight(b[0])));
                 sgd.update(grad(made, s.state.parameters()));
                 return made;
               });
             }),
             {"[mul] ", "reads the whole of the sparse table"});
}

TEST(SparseRefusals, AnAverageReadsTheWholeTable) {
  Setting s;
  Sgd sgd(s.state / "optim");
  WeightAverage average(s.state / "ema", 0.9);
  expect_all(refusal([&] {
               s.plan([&](const Batch& b) {
                 Loss made = s.loss(b);
                 sgd.update(grad(made, s.state.parameters()));
                 average.update(b[0]);
                 return made;
               });
             }),
             {"the new values of the sparse table \"table.weight\""});
}

TEST(SparseRefusals, OptimizersThatMoveEveryRowAreRefused) {
  const char* way_out =
      "take sparse_adam, rowwise_adagrad, adagrad without weight decay or sgd without momentum";
  auto said = [](auto make) {
    return refusal([&] {
      Setting s;
      make(s.state);
    });
  };
  expect_all(said([](State& s) { AdamW(s / "optim"); }),
             {"[adamw] sparse_refusals_test.cpp:", "\"table.weight\" (",
              ") is sparse, and adamw updates every row", way_out});
  expect_all(said([](State& s) { Muon(s / "optim"); }),
             {"[muon] ", "is sparse, and muon updates every row", way_out});
  expect_all(said([](State& s) { Sgd(s / "optim", {.momentum = 0.9}); }),
             {"[sgd] ", "the momentum of sgd", way_out});
  expect_all(said([](State& s) { Sgd(s / "optim", {.weight_decay = 0.1}); }),
             {"[sgd] ", "the weight decay of sgd changes every row", way_out});
  expect_all(said([](State& s) { Adagrad(s / "optim", {.weight_decay = 0.1}); }),
             {"[adagrad] ", "the weight decay of adagrad changes every row", way_out});
}

TEST(SparseRefusals, OptimizersOfSparseTablesWantSome) {
  State state(solo_mesh(), 1);
  const Linear dense(state / "dense", 3, 3);
  expect_all(refusal([&] { SparseAdam(state / "optim"); }),
             {"[sparse_adam] sparse_refusals_test.cpp:", "the state has no sparse table", "make one sparse"});
  expect_all(refusal([&] { RowwiseAdagrad(state / "optim"); }), {"[rowwise_adagrad] ", "no sparse table"});
  expect_all(refusal([&] { SparseAdam(state / "optim", {.parameters = {dense.weight}}); }),
             {"[sparse_adam] ", "\"dense.weight\" is dense, and sparse_adam updates sparse tables"});
}

TEST(SparseRefusals, TablesHaveTwoDimsAndAreSplitByRows) {
  State state(solo_mesh(), 1);
  expect_all(refusal([&] { state.root().sparse("cube", {2, 3, 4}, init::zeros()); }),
             {"\"cube\"", "is sparse and f32[2,3,4]; a sparse table is [rows, width]"});
  for (const PlacementRule& rule :
       {PlacementRule{"dp_replicate", "table.weight", Shard(0)},
        PlacementRule{"tp", "table.weight", Shard(0)}, PlacementRule{"dp_shard", "table.weight", Shard(1)}}) {
    Setting s;
    expect_all(
        refusal([&] { s.state.place({rule}); }),
        {"[place] ", "\"table.weight\" is sparse, and a sparse table is split by rows and only over dp_shard",
         "say shard(0) on dp_shard"});
  }
  Setting s(Mesh{{2}, {"dp_shard"}});
  SparseAdam adam(s.state / "optim");
  expect_all(refusal([&] {
               s.state.place({{"dp_shard", "optim.table.weight.exp_avg", Replicate()}});
               s.plan(s.step(adam));
             }),
             {"[place] ", "\"optim.table.weight.exp_avg\" is a moment of the sparse table \"table.weight\"",
              "which is Shard(0) on dp_shard: both are split in the same way"});
}

TEST(SparseRefusals, ALossThatTakesNoRowsHasNoGradient) {
  Setting s;
  Sgd sgd(s.state / "optim");
  expect_all(refusal([&] {
               s.plan([&](const Batch& b) {
                 const Loss made{sum(convert(b[0], DType::f32), {0, 1}), full(b[0], {}, 1, DType::i64)};
                 sgd.update(grad(made, s.state.parameters()));
                 return made;
               });
             }),
             {"[grad] ", "the loss takes no rows of the sparse table \"table.weight\"",
              "leave it out of the parameters"});
}

TEST(SparseRefusals, AGradientWithoutItsIdsIsRefused) {
  Setting s;
  Sgd sgd(s.state / "optim");
  expect_all(refusal([&] {
               s.plan([&](const Batch& b) {
                 Loss made = s.loss(b);
                 const Gradients all = grad(made, s.state.parameters());
                 sgd.update({all.parameters, all.values});
                 return made;
               });
             }),
             {"[sgd] sparse_refusals_test.cpp:", "\"table.weight\" is sparse, and its gradient has no ids",
              "as grad() gives them"});
}

TEST(SparseRefusals, TensorParallelismIsRefused) {
  Setting s(Mesh{{2}, {"tp"}});
  const Linear split(s.state / "split", kWidth, kWidth);
  s.state.place({{"tp", "split.weight", Shard(0)}, {"tp", "split.bias", Shard(0)}});
  Sgd sgd(s.state / "optim");
  expect_all(refusal([&] {
               s.plan([&](const Batch& b) {
                 Loss made{sum(square(split(s.table(b[0]))), {0, 1, 2}), full(b[0], {}, 1, DType::i64)};
                 sgd.update(grad(made, s.state.parameters()));
                 return made;
               });
             }),
             {"[sparse] sparse_refusals_test.cpp:", "\"table.weight\" is a sparse table", "over tp (2 ranks)",
              "leave tp out"});
}

// The CPU without what sums rows.
class OtherTarget : public Target {
 public:
  Device& device() const override { return cpu_target().device(); }
  bool claims(OpId op) const override { return cpu_target().claims(op); }
  bool is_library_op(OpId op) const override { return cpu_target().is_library_op(op); }
  bool accepts_strides(const Node& node, size_t i) const override {
    return cpu_target().accepts_strides(node, i);
  }
  KernelSource generate(const Graph& body) const override { return cpu_target().generate(body); }
  KernelSource generate_multi_tensor(const Graph& body) const override {
    return cpu_target().generate_multi_tensor(body);
  }
  std::shared_ptr<const KernelSet> compile(std::vector<KernelSource> sources,
                                           const TargetOptions& how) const override {
    return cpu_target().compile(std::move(sources), how);
  }
  std::shared_ptr<const KernelSet> load(const std::string& binary) const override {
    return cpu_target().load(binary);
  }
  std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in,
                                                 const std::vector<Operand>& out,
                                                 const TargetOptions& how) const override {
    return cpu_target().make_library_call(node, in, out, how);
  }
  std::unique_ptr<Reductions> make_reductions(const TargetOptions& how) const override {
    return cpu_target().make_reductions(how);
  }
  std::string library_version() const override { return cpu_target().library_version(); }
};
TEST(SparseRefusals, ADeviceThatSumsNoRowsIsNamed) {
  Setting s;
  Sgd sgd(s.state / "optim");
  const OtherTarget other;
  CompileOptions options;
  options.target = &other;
  expect_all(refusal([&] { s.plan(s.step(sgd), options); }),
             {"[sparse] ", "is a sparse table, and the step runs on ", ", which sums no rows by their ids",
              "make the table dense, or train on the CPU or an NVIDIA GPU"});
}

TEST(SparseRefusals, ASplitTableOnAnotherDeviceIsNamed) {
  class Summing : public OtherTarget {
   public:
    bool sums_rows() const override { return true; }
  };
  const Summing other;
  CompileOptions options;
  options.target = &other;
  Setting s(Mesh{{2}, {"dp_shard"}});
  Sgd sgd(s.state / "optim");
  const auto words = {"[sparse] sparse_refusals_test.cpp:",
                      "\"table.weight\" is a sparse table whose rows are split over dp_shard (2 ranks)",
                      "which only the CPU can do", "keep it whole (mesh.zero 1 or 2"};
  expect_all(refusal([&] { s.plan(s.step(sgd), options); }), words);
  expect_all(refusal([&] { s.plan([&](const Batch& b) { return s.loss(b); }, options); }), words);
  s.state.zero(2);
  EXPECT_EQ(refusal([&] { s.plan(s.step(sgd), options); }), "");
}

// Rows of other ranks come before the body: their ids cannot follow from what it computes.
TEST(SparseRefusals, IdsThatFollowFromWeightsWantAWholeTable) {
  auto said = [](const Mesh& words, int zero, bool nested) {
    Setting s(words);
    s.state.zero(zero);
    const Linear out(s.state / "out", kWidth, kWidth);
    Sgd sgd(s.state / "optim");
    return refusal([&] {
      s.plan([&](const Batch& b) {
        const Tensor rows =
            nested ? s.table(b[0]) : out(broadcast_dims(convert(b[0], DType::f32), {2, 3, kWidth}, {0, 1}));
        const Tensor chosen = argmax(rows, 2);
        Loss made{sum(square(s.table(chosen)), {0, 1, 2}) + sum(rows, {0, 1, 2}),
                  full(b[0], {}, 1, DType::i64)};
        sgd.update(grad(made, s.state.parameters()));
        return made;
      });
    });
  };
  for (bool nested : {true, false}) {
    expect_all(
        said({{2}, {"dp_shard"}}, 3, nested),
        {"[take] sparse_refusals_test.cpp:", "ids of the sparse table \"table.weight\" follow from weights",
         "split over dp_shard (2 ranks)", "take rows by ids that follow from the batch",
         "keep the table whole"});
    EXPECT_EQ(said({{2}, {"dp_shard"}}, 2, nested), "");
    EXPECT_EQ(said({{2}, {"dp_replicate"}}, 3, nested), "");
  }
}

// The typed program without what gathers rows, or what takes this rank's part of their squares.
Graph without(const Graph& graph, OpId op, bool twice) {
  Rewriter rewriter(graph);
  Graph& made = rewriter.graph();
  auto types = [&](const Node& node) {
    std::vector<std::pair<DType, Shape>> out;
    for (ValueId v : node.outputs) out.emplace_back(graph[v].dtype, graph[v].shape);
    return out;
  };
  for (const Node& node : graph.nodes) {
    const bool waits = node.op == ops::wait && graph.producer(node.inputs[0]).op == op;
    if (node.op == op && !twice && op == ops::lane_gather_start) continue;
    if (node.op == op && op != ops::lane_gather_start) {
      rewriter.map(node.outputs[0], rewriter.at(node.inputs[0]));
      continue;
    }
    if (!waits) {
      rewriter.copy(node);
      continue;
    }
    const Node& start = graph.producer(node.inputs[0]);
    if (!twice) {
      for (size_t i = 0; i < 2; ++i) rewriter.map(node.outputs[i], rewriter.at(start.inputs[i]));
      continue;
    }
    const auto first = rewriter.copy(node);
    const auto handle = made.append(start.op, first, start.attrs, types(start), start.at);
    const auto again = made.append(ops::wait, handle, node.attrs, types(node), node.at);
    for (size_t i = 0; i < 2; ++i) rewriter.map(node.outputs[i], again[i]);
  }
  return rewriter.finish();
}
TEST(SparseRefusals, WrongCommunicationDoesNotCompile) {
  Setting s(Mesh{{3}, {"dp_replicate"}});
  Sgd sgd(s.state / "optim");
  const StepPlan plan = s.plan(s.step(sgd));
  PassContext context{
      plan.phases.whole.mesh, [&](const std::string& fqn) { return s.state.layout(fqn); }, {}};
  Graph whole = plan.phases.whole;
  EXPECT_NO_THROW(place_values(whole, context));
  auto said = [&](OpId op, bool twice) {
    Graph mutant = without(plan.phases.whole, op, twice);
    return refusal([&] { place_values(mutant, context); });
  };
  expect_all(said(ops::lane_gather_start, false),
             {"[sum_rows] sparse_refusals_test.cpp:", "which is PerLane", "gather them first"});
  expect_all(said(ops::lane_gather_start, true), {"[lane_gather_start] ", "still belongs to one"});
  expect_all(said(ops::local_rows, false), {"[norm_limbs] ", "each row is counted once"});
}
TEST(SparseRefusals, WrongCommunicationOfOwnersDoesNotCompile) {
  Setting s(Mesh{{2, 2}, {"dp_replicate", "dp_shard"}});
  SparseAdam adam(s.state / "optim");
  const StepPlan plan = s.plan(s.step(adam));
  const PassContext context{
      plan.phases.whole.mesh, [&](const std::string& fqn) { return s.state.layout(fqn); }, {}};
  auto said = [&](const std::function<void(Graph&, Node&)>& change) {
    Graph mutant = plan.phases.whole;
    for (Node& node : mutant.nodes) change(mutant, node);
    return refusal([&] { place_values(mutant, context); });
  };
  EXPECT_EQ(said([](Graph&, Node&) {}), "");
  auto drop = [](OpId op, const char* attr) {
    return [op, attr](Graph&, Node& node) {
      if (node.op != op) return;
      Attrs kept;
      for (const auto& [name, value] : node.attrs.items())
        if (name != attr) kept.set(name, value);
      node.attrs = kept;
    };
  };
  expect_all(said(drop(ops::sum_rows, "owners")),
             {"[norm_limbs] ", "which is Replicate on dp_shard", "each row is counted once"});
  expect_all(said(drop(ops::take, "fetch")), {"[take] ", "mixes values of micro-batches with shards"});
  // Rows of all ids put into a shard; the squares of replicas counted by each.
  ValueId ids;
  expect_all(said([&](Graph&, Node& node) {
               if (node.op == ops::wait && node.outputs.size() == 2) ids = node.outputs[0];
               if (node.op == ops::put_rows) node.inputs[1] = ids;
             }),
             {"[put_rows] ", "on dp_shard"});
  Graph uncounted = without(plan.phases.whole, ops::local_rows, false);
  expect_all(refusal([&] { place_values(uncounted, context); }),
             {"[norm_limbs] ", "each row is counted once"});
}

}  // namespace
}  // namespace lockstep
