// Compiler passes of one's own: put behind a row by name, verified, and refused where they do not fit.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "compiler/compile/compile.h"
#include "compiler/register_pass.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/ir/walk.h"
#include "core/nn/layers.h"
#include "core/ops/op.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"
#include "tests/support/tiny_run.h"

namespace lockstep {
namespace {

using compiler::register_pass;
using Names = std::vector<std::string>;

std::string train(const Names& passes, Mesh mesh = {{1}, {"dp_replicate"}}, const Names& skipped = {}) {
  std::string out;
  distributed::local_mesh(static_cast<int>(mesh.size()), mesh, [&](LiveMesh& live) {
    State state(live, 3);
    Linear layer(state / "layer", 6, 5);
    Sgd sgd(state / "optim", {.lr = 0.05});
    compiler::CompileOptions options;
    options.extra_passes = passes;
    options.skip_passes = skipped;
    compiler::Step step = compile(
        state, {{"x", DType::f32, {2, 6}}}, {12, 2, 0},
        [&](const std::vector<Tensor>& batch) {
          Loss loss = mean_loss(square(tanh(layer(batch[0]))));
          sgd.update(grad(loss, state.parameters()));
          return loss;
        },
        options);
    state.materialize();
    for (int64_t i = 1; i <= 3; ++i)
      step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& into) {
                  for (int64_t e = 0; e < count * 6; ++e)
                    static_cast<float*>(into[0])[e] = philox::uniform(
                        philox::bits(5, 1, static_cast<uint64_t>(i), static_cast<uint64_t>(first * 6 + e)));
                }});
    const std::string hash = state_hash(std::as_const(state).arrays(), live);
    if (live.rank == 0) out = hash;
  });
  return out;
}

// Every op `from` as `to`, of the same types.
compiler::OwnPass replace(OpId from, OpId to) {
  return [=](Graph graph) {
    for (Node& node : graph.nodes)
      if (node.op == from) node.op = to;
    return graph;
  };
}

TEST(OwnPass, RunsBehindItsRowOnEveryMesh) {
  register_pass("simplify", "mine::sin_for_tanh", replace(ops::tanh, ops::sin));
  register_pass("differentiate", "mine::nothing", [](Graph graph) { return graph; });
  const std::string plain = train({}), changed = train({"mine::sin_for_tanh"});
  EXPECT_EQ(train({"mine::nothing"}), plain);
  EXPECT_NE(changed, plain);
  EXPECT_EQ(train({"mine::sin_for_tanh"}, {{1}, {"dp_replicate"}}, {"simplify"}), changed);
  for (const Mesh& mesh : {Mesh{{2}, {"dp_replicate"}}, Mesh{{3}, {"dp_replicate"}}, Mesh{{2}, {"dp_shard"}}})
    EXPECT_EQ(train({"mine::nothing", "mine::sin_for_tanh"}, mesh), changed);
}
TEST(OwnPass, RunsInTheOrderOfTheList) {
  register_pass("decompose", "mine::tanh_to_sin", replace(ops::tanh, ops::sin));
  register_pass("decompose", "mine::sin_to_cos", replace(ops::sin, ops::cos));
  EXPECT_NE(train({"mine::tanh_to_sin", "mine::sin_to_cos"}),
            train({"mine::sin_to_cos", "mine::tanh_to_sin"}));
}
TEST(OwnPass, OfPhases) {
  int runs = 0;
  register_pass("mark_views", "mine::count", [&](Graph graph) {
    ++runs;
    return graph;
  });
  EXPECT_EQ(train({"mine::count"}), train({}));
  EXPECT_GE(runs, 3);  // count, seed, body
}

// Levels of recomputation are planned by several threads, but where a pass is the user's, which may count.
TEST(OwnPass, RunsOnTheCallersThreadUnderAMemoryBudget) {
  std::vector<std::thread::id> seen;
  std::thread::id caller;
  register_pass("differentiate", "mine::caller", [&](Graph graph) {
    caller = std::this_thread::get_id();
    return graph;
  });
  register_pass("rematerialize", "mine::threads", [&](Graph graph) {
    seen.push_back(std::this_thread::get_id());
    return graph;
  });
  tests::TinyRun run;
  const std::string plain = tests::train_tiny(run).hash;
  run.options.memory_budget = compiler::kRecomputeFull;
  run.options.extra_passes = {"mine::caller", "mine::threads"};
  EXPECT_EQ(tests::train_tiny(run).hash, plain);
  EXPECT_GT(seen.size(), 1u);
  EXPECT_EQ(std::set<std::thread::id>(seen.begin(), seen.end()), std::set<std::thread::id>{caller});
}

template <class F>
void refused(const F& call, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "accepted; expected: " << words;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}
TEST(OwnPass, WhatDoesNotFitIsRefused) {
  const auto same = [](Graph graph) { return graph; };
  refused([&] { register_pass("simplfy", "bad::pass", same); },
          "[register_pass] \"bad::pass\": there is no pass \"simplfy\" to run after; nearest: simplify; "
          "passes: ");
  refused([&] { register_pass("simplify", "pass", same); }, "a name has at least two parts of small letters");
  refused([&] { register_pass("simplify", "bad::pass", nullptr); }, "its function is empty");
  register_pass("simplify", "mine::placed", same);
  register_pass("simplify", "mine::placed", same);
  refused([&] { register_pass("decompose", "mine::placed", same); },
          "it already runs after \"simplify\", not after \"decompose\"");
  refused([&] { train({"mine::plased"}); },
          "compile.extra_passes: no pass \"mine::plased\" is registered; registered: ");
  register_pass("simplify", "mine::drops_an_output", [](Graph graph) {
    graph.outputs.pop_back();
    return graph;
  });
  refused([&] { train({"mine::drops_an_output"}); },
          "compile.extra_passes: pass \"mine::drops_an_output\" gives a graph with ");
  register_pass("simplify", "mine::renames", [](Graph graph) {
    graph.outputs.back().name = "other";
    return graph;
  });
  refused([&] { train({"mine::renames"}); }, "; they must stay");
  register_pass("simplify", "mine::wrong_types", replace(ops::tanh, ops::argmax));
  refused([&] { train({"mine::wrong_types"}); }, "gives a graph that does not fit the op table: ");
}

}  // namespace
}  // namespace lockstep
