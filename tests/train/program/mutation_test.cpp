// Wrong communication does not compile: every collective of the program, removed or doubled, is an error that
// names a source line.
#include <gtest/gtest.h>

#include "compiler/compile/compile.h"
#include "compiler/partition/placements.h"
#include "compiler/pipeline.h"
#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/models/family.h"
#include "core/ops/op.h"
#include "core/optim/adamw.h"

namespace lockstep {

using namespace compiler;

namespace {

struct Traced {
  std::unique_ptr<State> state;
  Graph program;
  PassContext context;
};

// The program of a small model's training step after so many passes: the typed one, after partition and
// buckets.
Traced program_of(const std::string& kind, int64_t ranks, int64_t bucket_bytes,
                  size_t passes = step_passes().size()) {
  Traced out;
  LiveMesh mesh = solo_mesh();
  mesh.words = Mesh{{ranks}, {"dp_replicate"}};
  out.state = std::make_unique<State>(mesh, 1);
  Json options = {{"vocab", 29}, {"context", 6}, {"width", 16}, {"depth", 1}, {"heads", 2}, {"dropout", 0.1}};
  if (kind == "llama") options.update({{"kv_heads", 1}});
  auto model = models::build(out.state->root(), kind, options);
  AdamW adamw(*out.state / "optim", {});
  State* state = out.state.get();
  Shape shape{2, 6};
  Graph graph = trace({{"ids", DType::i32, shape}, {"targets", DType::i32, shape}},
                      [&](const std::vector<Tensor>& batch) {
                        Loss loss = cross_entropy(model.logits(batch[0], true), batch[1]);
                        adamw.update(grad(loss, state->parameters()));
                        return loss;
                      });
  out.context = {mesh.words, [state](const std::string& fqn) { return state->layout(fqn); }, {}};
  out.context.options.bucket_bytes = bucket_bytes;
  out.program = run_passes(std::move(graph), step_passes().first(passes), out.context);
  return out;
}

bool is_start(const Node& node) { return op_row(node.op).half == CollectiveHalf::start; }
const Node& wait_of(const Graph& graph, const Node& start) {
  for (const Node& node : graph.nodes)
    if (node.op == "wait" && node.inputs[0] == start.outputs[0]) return node;
  throw InternalError("a start without a wait");
}

// What is done to one node of the program.
enum class Cut { remove_pair, remove_wait, remove_start, remove_local, double_pair, double_local };
const char* name_of(Cut cut) {
  const char* names[] = {"start and wait removed",  "wait removed",           "start removed",
                         "local reduction removed", "start and wait doubled", "local reduction doubled"};
  return names[static_cast<int>(cut)];
}

Graph mutate(const Graph& graph, NodeId target, Cut cut) {
  const Node& chosen = graph.node(target);
  const Node* wait = is_start(chosen) ? &wait_of(graph, chosen) : nullptr;
  Rewriter rewriter(graph);
  Graph& made = rewriter.graph();
  auto types = [&](const std::vector<ValueId>& values) {
    std::vector<std::pair<DType, Shape>> out;
    for (ValueId v : values) out.emplace_back(graph[v].dtype, graph[v].shape);
    return out;
  };
  for (const Node& node : graph.nodes) {
    if (&node == &chosen && (cut == Cut::remove_pair || cut == Cut::remove_start)) {
      if (cut == Cut::remove_start) rewriter.map(node.outputs[0], rewriter.at(node.inputs[0]));
      continue;
    }
    if (&node == &chosen && cut == Cut::remove_local) {
      for (ValueId v : node.outputs) rewriter.map(v, rewriter.at(node.inputs[0]));
      continue;
    }
    if (&node == wait && (cut == Cut::remove_pair || cut == Cut::remove_wait)) {
      for (size_t i = 0; i < node.outputs.size(); ++i)
        rewriter.map(node.outputs[i],
                     rewriter.at(cut == Cut::remove_pair ? chosen.inputs[i] : node.inputs[0]));
      continue;
    }
    auto first = rewriter.copy(node);
    if (&node == wait && cut == Cut::double_pair) {
      auto handle = made.append(chosen.op, first, chosen.attrs, types(chosen.outputs), chosen.at);
      auto again = made.append("wait", handle, node.attrs, types(node.outputs), node.at);
      for (size_t i = 0; i < again.size(); ++i) rewriter.map(node.outputs[i], again[i]);
    }
    if (&node == &chosen && cut == Cut::double_local) {
      auto again = made.append(node.op, {first[0]}, node.attrs, types(node.outputs), node.at);
      for (size_t i = 0; i < again.size(); ++i) rewriter.map(node.outputs[i], again[i]);
    }
  }
  return rewriter.finish();
}

class Mutation : public testing::TestWithParam<std::tuple<std::string, int64_t, int64_t>> {};

TEST_P(Mutation, IsACompileErrorThatNamesALine) {
  auto [kind, ranks, bucket_bytes] = GetParam();
  Traced traced = program_of(kind, ranks, bucket_bytes);
  {
    Graph untouched = traced.program;
    EXPECT_NO_THROW(place_values(untouched, traced.context));
  }
  int mutants = 0, collectives = 0;
  for (NodeId n : traced.program.node_ids()) {
    const Node& node = traced.program.node(n);
    std::vector<Cut> cuts;
    if (is_start(node))
      cuts = {Cut::remove_pair, Cut::remove_wait, Cut::remove_start, Cut::double_pair}, ++collectives;
    if (node.op == "lane_sum" || node.op == "lane_count")
      cuts = {Cut::remove_local, Cut::double_local}, ++collectives;
    if (node.op == "norm_limbs" || node.op == "local_rows") cuts = {Cut::remove_local};
    for (Cut cut : cuts) {
      Graph mutant = mutate(traced.program, n, cut);
      ++mutants;
      try {
        place_values(mutant, traced.context);
        ADD_FAILURE() << node.op << " at " << node.at.text() << ": " << name_of(cut)
                      << ", and the program compiles";
      } catch (const UserError& error) {
        EXPECT_NE(std::string(error.what()).find(".cpp:"), std::string::npos)
            << node.op << ", " << name_of(cut) << ": no source line in: " << error.what();
      }
    }
  }
  EXPECT_GE(collectives, 6);
  RecordProperty("mutants", mutants);
  std::printf("%s on %lld ranks: %d collectives and reductions, %d mutants, none compiles\n", kind.c_str(),
              static_cast<long long>(ranks), collectives, mutants);
}

INSTANTIATE_TEST_SUITE_P(Programs, Mutation,
                         testing::Combine(testing::Values("gpt", "llama"),
                                          testing::Values(int64_t{1}, int64_t{3}),
                                          testing::Values(int64_t{1}, int64_t{64} << 20)));

// Before data is partitioned, after each pass: without any of its sums over micro-batches the program does
// not compile.
TEST(MissingReduction, IsFoundAfterEachPass) {
  size_t first = 0;  // before differentiation a graph is not typed
  while (step_passes()[first].typed == Typed::no) ++first;
  size_t passes = first, simplified = first;
  while (step_passes()[passes].typed == Typed::lanes) ++passes;
  while (std::string(step_passes()[simplified].name) != "simplify") ++simplified;
  ASSERT_GE(passes, first + 7);
  for (; passes > first; --passes) {
    Traced traced = program_of("llama", 3, 64 << 20, passes);
    EXPECT_NO_THROW(check_lanes(traced.program));
    int sums = 0;
    for (NodeId n : traced.program.node_ids())
      if (const Node& node = traced.program.node(n); node.op == "sum_lanes") {
        // Until simplify makes them one, the count that seeds backward has no other reader: of one
        // micro-batch it is a program too, if another.
        if (passes <= simplified && !is_float(traced.program[node.outputs[0]].dtype)) continue;
        EXPECT_THROW(check_lanes(mutate(traced.program, n, Cut::remove_local)), UserError)
            << step_passes()[passes - 1].name << ", " << node.at.text();
        ++sums;
      }
    EXPECT_GE(sums, 10) << step_passes()[passes - 1].name;
  }
}

// A program whose own optimizer reads a value of one micro-batch is refused as well, by the same rule.
TEST(MissingReduction, OfAUsersOwnUpdateIsRefused) {
  LiveMesh mesh = solo_mesh();
  State state(mesh, 1);
  Parameter weight = state.root().parameter("weight", {3}, init::zeros());
  Parameter m = (state / "optim").moment(weight, "momentum");
  Graph graph = trace(
      {{"ids", DType::i32, {2, 3}}, {"targets", DType::i32, {2, 3}}}, [&](const std::vector<Tensor>& batch) {
        Tensor w = weight(batch[0]);
        Tensor own = sum(convert(batch[0], DType::f32) * w, {0});
        auto made = apply("sgd", {w, own, m(w), full(w, {}, 0.1, DType::f32), full(w, {}, 1.0, DType::f32)},
                          {{"momentum", 0.0}, {"weight_decay", 0.0}});
        w.builder()->graph.add_output(OutputKind::state, "weight", made[0].id());
        w.builder()->graph.add_output(OutputKind::state, "optim.weight.momentum", made[1].id());
        return Loss{sum(own, {0}), sum(convert(batch[1], DType::i64), {0, 1})};
      });
  PassContext context{mesh.words, [&](const std::string& fqn) { return state.layout(fqn); }, {}};
  try {
    run_passes(std::move(graph), step_passes(), context);
    FAIL() << "a per-lane gradient reached an update";
  } catch (const UserError& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("mutation_test.cpp:"), std::string::npos) << text;
    EXPECT_NE(text.find("PerLane"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lockstep
