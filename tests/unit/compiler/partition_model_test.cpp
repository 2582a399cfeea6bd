// partition_model: where the collectives of a model on tp are, and that the placements between its halves are
// checked.
#include <gtest/gtest.h>

#include "compiler/compile/compile.h"
#include "compiler/partition/model.h"
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
  Graph joint;  // differentiated and simplified
  PassContext context;
};

Traced traced(const std::string& kind, int64_t tp, double dropout = 0) {
  Traced out;
  LiveMesh mesh = solo_mesh();
  mesh.words = Mesh{{1, tp}, {"dp_replicate", "tp"}};
  out.state = std::make_unique<State>(mesh, 1);
  State* state = out.state.get();
  Json options = {{"vocab", 1000}, {"context", 64}, {"width", 64},
                  {"depth", 2},    {"heads", 4},    {"dropout", dropout}};
  if (kind == "llama") options.update({{"kv_heads", 2}});
  auto model = models::build(state->root(), kind, options);
  AdamW adamw(*state / "optim", {});
  state->place_by_default(model.placements);
  Shape shape{2, 64};
  Graph graph = trace({{"ids", DType::i32, shape}, {"targets", DType::i32, shape}},
                      [&](const std::vector<Tensor>& batch) {
                        Loss loss = cross_entropy(model.logits(batch[0], true), batch[1]);
                        adamw.update(grad(loss, state->parameters()));
                        return loss;
                      });
  out.context = {mesh.words, [state](const std::string& fqn) { return state->layout(fqn); }, {}};
  out.joint = run_passes(std::move(graph), step_passes().first(2), out.context);
  return out;
}

// "gather f32[2,32,64] blocks.0.attn.qkv": what each rank hands over, and for which layer, in order.
std::vector<std::string> collectives(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes)
    if (op_row(node.op).of_model && op_row(node.op).half == CollectiveHalf::start)
      out.push_back(str(node.op == "model_gather_start" ? "gather " : "exchange ",
                        shape_text(graph[node.inputs[0]].dtype, graph[node.inputs[0]].shape), " ",
                        node.at.scope));
  return out;
}

TEST(PartitionModel, TwoGathersAndTwoExchangesPerBlockAndDirection) {
  Traced gpt = traced("gpt", 2);
  Graph graph = partition_model(gpt.joint, gpt.context);
  verify(graph, "partition_model");
  const std::vector<std::string> wanted{
      "gather f32[2,32,64] blocks.0.attn.qkv", "exchange f32[2,2,1,32,64] blocks.0.attn.out",
      "gather f32[2,32,64] blocks.0.mlp.up",   "exchange f32[2,2,1,32,64] blocks.0.mlp.down",
      "gather f32[2,32,64] blocks.1.attn.qkv", "exchange f32[2,2,1,32,64] blocks.1.attn.out",
      "gather f32[2,32,64] blocks.1.mlp.up",   "exchange f32[2,2,1,32,64] blocks.1.mlp.down",
  };
  auto found = collectives(graph);
  ASSERT_GE(found.size(), wanted.size());
  EXPECT_EQ(std::vector<std::string>(found.begin(), found.begin() + static_cast<int64_t>(wanted.size())),
            wanted);
  int gathers = 0, exchanges = 0;
  for (size_t i = wanted.size(); i < found.size(); ++i) {
    gathers += found[i].rfind("gather f32[2,32,64]", 0) == 0;
    exchanges += found[i].rfind("exchange f32[2,2,1,32,64]", 0) == 0;
  }
  EXPECT_EQ(gathers, 4) << join(found, "\n");
  EXPECT_EQ(exchanges, 4) << join(found, "\n");
}

TEST(PartitionModel, WithoutSequenceParallelismSumsAreWhole) {
  Traced gpt = traced("gpt", 2);
  gpt.context.options.sequence_parallel = false;
  auto found = collectives(partition_model(gpt.joint, gpt.context));
  for (const auto& line : found) EXPECT_EQ(line.find("[2,32,64]"), std::string::npos) << line;
}

TEST(PartitionModel, GroupedKeysAndDropoutAreSplitToo) {
  for (int64_t tp : {1, 2}) {
    Traced llama = traced("llama", tp, 0.1);
    Graph graph = partition_model(llama.joint, llama.context);
    verify(graph, "partition_model");
    int attention = 0;
    for (const Node& node : graph.nodes)
      if (node.op == "sdpa") {
        ++attention;
        EXPECT_EQ(graph[node.inputs[0]].shape, (Shape{2, 64, 4 / tp, 16}));
        EXPECT_EQ(graph[node.inputs[1]].shape, (Shape{2, 64, 2 / tp, 16}));
      }
    EXPECT_EQ(attention, 2);  // one per block
    for (const auto& input : graph.inputs)
      if (input.name == "blocks.0.mlp.down.weight" ||
          input.name == "optim.blocks.0.mlp.down.weight.exp_avg") {
        EXPECT_EQ(graph[input.value].shape[1] * tp,
                  llama.state->find_spec("blocks.0.mlp.down.weight").shape()[1]);
      }
  }
}

TEST(PartitionModel, OneRankKeepsItsGraph) {
  Traced gpt = traced("gpt", 1);
  EXPECT_EQ(structure_hash(partition_model(gpt.joint, gpt.context)), structure_hash(gpt.joint));
}

// Each redistribution, left out, is an error with a source line.
TEST(PartitionModel, AMissingRedistributionDoesNotCompile) {
  for (const char* kind : {"gpt", "llama"}) {
    Traced model = traced(kind, 2, 0.1);
    Graph placed = place_model(prepare_model(model.joint, model.context, 1), model.context, 1);
    EXPECT_NO_THROW(check_model_placements(placed, model.context, 1));
    int mutants = 0;
    for (const Node& target : placed.nodes) {
      if (target.op != "redistribute") continue;
      Rewriter rewriter(placed);
      for (const Node& node : placed.nodes) {
        if (&node == &target)
          rewriter.map(node.outputs[0], rewriter.at(node.inputs[0]));
        else
          rewriter.copy(node);
      }
      ++mutants;
      try {
        check_model_placements(rewriter.finish(), model.context, 1);
        ADD_FAILURE() << "without the redistribution at " << target.at.text() << " of "
                      << target.attrs.word("from") << " to " << target.attrs.word("to");
      } catch (const UserError& error) {
        EXPECT_NE(std::string(error.what()).find(".cpp:"), std::string::npos) << error.what();
      }
    }
    EXPECT_GT(mutants, 20);
  }
}

}  // namespace
}  // namespace lockstep
