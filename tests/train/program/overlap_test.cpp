// Overlap, proved by the schedule and not by a clock: gradients travel while the rest of the backward runs.
#include <gtest/gtest.h>

#include "compiler/compile/compile.h"
#include "compiler/runtime/certificate.h"
#include "core/base/error.h"
#include "core/ir/print.h"
#include "core/ir/walk.h"
#include "core/models/gpt.h"
#include "core/optim/adamw.h"

namespace lockstep {

using namespace compiler;

namespace {

StepPlan plan_of(int64_t ranks, int64_t bucket_bytes) {
  LiveMesh mesh = solo_mesh();
  mesh.words = Mesh{{ranks}, {"dp_replicate"}};
  State state(mesh, 1);
  models::Gpt gpt(state.root(), {.vocab = 32, .context = 8, .width = 16, .depth = 3, .heads = 2});
  AdamW adamw(state / "optim", {});
  CompileOptions options;
  options.bucket_bytes = bucket_bytes;
  Shape shape{2, 8};
  return plan_step(
      state, mesh.words, {{"ids", DType::i32, shape}, {"targets", DType::i32, shape}}, {16, 2, 0},
      [&](const std::vector<Tensor>& batch) {
        Loss loss = cross_entropy(gpt(batch[0]), batch[1]);
        adamw.update(grad(loss, state.parameters()));
        return loss;
      },
      options);
}

TEST(Overlap, EveryBucketButTheLastStartsBeforeTheBackwardEnds) {
  StepPlan plan = plan_of(4, 8 << 10);
  ASSERT_GE(plan.phases.buckets.size(), 3u);
  const ProgramBlock body = plan_blocks(plan).body;
  const auto& ready = body.ready;  // the call after which a bucket may leave
  const auto calls = static_cast<int>(body.calls.size());
  ASSERT_EQ(ready.size(), plan.phases.buckets.size());
  for (size_t b = 0; b + 1 < ready.size(); ++b) {
    EXPECT_LT(ready[b] + 1, calls) << "bucket " << b << " waits for the end of the backward";
    EXPECT_LE(ready[b], ready[b + 1]) << "buckets start in another order than the plan's";
  }
  // The first gradients are those of the last layers: well before the end.
  EXPECT_LT(ready[0] + 1, calls * 3 / 4);
}

TEST(Overlap, BucketsCarryEveryGradientOnceInAboutTheAskedSize) {
  for (int64_t bytes : {int64_t{1}, int64_t{8} << 10, int64_t{64} << 20}) {
    StepPlan plan = plan_of(2, bytes);
    std::vector<int> carried;
    for (const auto& bucket : plan.phases.buckets) {
      int64_t size = 0;
      for (int output : bucket) {
        carried.push_back(output);
        size += numel(plan.body[plan.body.outputs[static_cast<size_t>(output)].value].shape) * 4;
      }
      EXPECT_TRUE(bucket.size() == 1 || size <= bytes) << size << " bytes in a bucket of " << bytes;
    }
    std::sort(carried.begin(), carried.end());
    for (size_t i = 0; i < carried.size(); ++i) EXPECT_EQ(carried[i], static_cast<int>(i));
    EXPECT_EQ(carried.size(), plan.body.outputs.size());
  }
}

// The part that belongs to micro-batches is the same program on every data mesh, and so is the certificate.
TEST(Overlap, TheBodyIsTheSameOnEveryMeshAndWithEveryBucketSize) {
  StepPlan one = plan_of(1, 4 << 20);
  std::string certificate = certificate_of(one, plan_blocks(one), 1);
  for (int64_t ranks : {1, 2, 3, 8})
    for (int64_t bytes : {int64_t{1}, int64_t{64} << 20}) {
      StepPlan other = plan_of(ranks, bytes);
      EXPECT_EQ(other.count.nodes.size(), one.count.nodes.size());
      // Outputs may stand in another order where buckets differ; what computes them may not.
      auto text = [](Graph graph) {
        graph.outputs.clear();
        for (size_t v = 0; v < graph.values.size(); ++v) graph.add_output(OutputKind::value, "", ValueId(v));
        return structure_hash(graph);
      };
      EXPECT_EQ(text(other.body), text(one.body)) << ranks << " ranks, buckets of " << bytes;
      EXPECT_EQ(certificate_of(other, plan_blocks(other), static_cast<int>(ranks)), certificate)
          << ranks << " ranks, buckets of " << bytes;
    }
}

// Where the library adds the ranks, their number decides bits.
TEST(Certificate, NamesTheRanksWhereNumericsAreFree) {
  StepPlan plan = plan_of(2, 4 << 20);
  const StepBlocks blocks = plan_blocks(plan);
  EXPECT_EQ(certificate_of(plan, blocks, 2), certificate_of(plan, blocks, 3));
  const std::string invariant = certificate_of(plan, blocks, 2);
  plan.options.invariant = false;
  EXPECT_NE(certificate_of(plan, blocks, 2), certificate_of(plan, blocks, 3));
  EXPECT_NE(certificate_of(plan, blocks, 2), invariant);
}

}  // namespace
}  // namespace lockstep
