// Delayed scales of float8: the same bits on any ranks, and histories as they are said to be.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "compiler/program/show/print.h"
#include "core/functions/delayed_float8.h"
#include "core/functions/functions.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/optim/adamw.h"
#include "core/optim/clip.h"
#include "core/types/half.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {
namespace {

constexpr int64_t kSteps = 3;  // of a history

TinyRun delayed(Mesh mesh = {{1}, {"dp_replicate"}}, int64_t steps = 5) {
  TinyRun run{.compute = DType::bf16, .float8 = true, .steps = steps, .context = 16, .width = 32};
  run.float8_options.recipe = Float8Recipe::delayed, run.float8_options.history = kSteps;
  run.options.precision = "float8";
  run.mesh = std::move(mesh);
  return run;
}

// The state that a run leaves.
class Left {
 public:
  explicit Left(TinyRun run) : folder_(dir_.path("ckpt")) {
    run.save = folder_;
    result = train_tiny(run);
    step_ = str(folder_, "/step-", run.steps);
  }
  std::vector<float> read(const std::string& fqn) const {
    const Array array = checkpoint::read_tensor(step_, fqn);
    const auto* data = array.data.as<float>();
    return {data, data + numel(array.shape)};
  }
  // Row and entry, the newest first.
  float entry(const std::string& layer, int64_t row, int64_t age = 0) const {
    return read(layer + ".amax_history").at(row * kSteps + age);
  }
  const std::string& folder() const { return folder_; }
  TinyResult result;

 private:
  ScratchFolder dir_;
  std::string folder_, step_;
};

float largest_in_bf16(const std::vector<float>& values) {
  float most = 0;
  for (float value : values) most = std::max(most, std::fabs(static_cast<float>(bf16(value))));
  return most;
}

TEST(DelayedFloat8, HasTheSameBitsOnAnyRanks) {
  const TinyResult one = train_tiny(delayed());
  EXPECT_NE(one.losses[0], one.losses[4]);
  for (const auto& [mesh, zero] : {std::pair(Mesh{{2}, {"dp_replicate"}}, 3),
                                   {Mesh{{3}, {"dp_shard"}}, 1},
                                   {Mesh{{2}, {"dp_shard"}}, 2},
                                   {Mesh{{3}, {"dp_shard"}}, 3},
                                   {Mesh{{7}, {"dp_shard"}}, 3},  // one has no micro-batch
                                   {Mesh{{2, 2}, {"dp_replicate", "dp_shard"}}, 3}}) {
    TinyRun run = delayed(mesh);
    run.zero = zero;
    expect_same(train_tiny(run), one, str(text(mesh), " ZeRO ", zero));
  }
  TinyRun layers = delayed({{2}, {"dp_shard"}});
  layers.options.gather = compiler::GatherWhen::layers;
  expect_same(train_tiny(layers), one, "weights gathered layer by layer");
  TinyRun eager = delayed();
  eager.options.fusion = false;
  expect_same_bits(train_tiny(eager), one, "without fusion");
  TinyRun again = delayed();
  again.options.memory_budget = compiler::kRecomputeFull;
  const TinyResult recomputed = train_tiny(again);
  EXPECT_GT(recomputed.recompute.values, 0);
  expect_same_bits(recomputed, one, "with activations computed again");
}

TEST(DelayedFloat8, OtherRecipesHaveOtherBits) {
  TinyRun current = delayed();
  current.float8_options.recipe = Float8Recipe::tensorwise;
  const TinyResult now = train_tiny(current), before = train_tiny(delayed());
  EXPECT_NE(now.certificate, before.certificate);
  EXPECT_NE(now.losses, before.losses);
  EXPECT_LT(relative_difference(now.losses.back(), before.losses.back()), 0.05);
}

// What products read is rounded where it is made, and then turned: no pass over a tensor of 16 bits stands
// between, and what is read by products alone is never written in 16 bits.
TEST(DelayedFloat8, IsRoundedWhereItIsMade) {
  TinyRun run = delayed({{1}, {"dp_replicate"}}, 1);
  run.observe = [&](const LiveMesh&, const compiler::Step& step) {
    int64_t turned = 0, made = 0;
    const Graph& body = step.plan().body;
    for (const Node& node : body.nodes) {
      if (node.op == ops::quantize) {
        EXPECT_TRUE(node.attrs.has("half") && node.attrs.word("half") == "transpose") << node.at.text();
        ++turned;
      }
      if (node.op != ops::fused) continue;
      for (ValueId v : node.outputs) {
        made += is_float8(body[v].dtype);
        // Of this width are GELU's output and the gradient of its input.
        const bool inner = body[v].dtype == DType::bf16 && body[v].shape.back() == 4 * run.width;
        EXPECT_FALSE(inner && numel(body[v].shape) > run.width * 4) << node.at.text();
      }
    }
    EXPECT_EQ(made, 16) << "an input and a gradient of four layers in two blocks";
    EXPECT_EQ(turned, made);
  };
  train_tiny(run);
}

// What many layers read, as q, k and v do, is rounded and turned for all of them once. To the bit it is as if
// each did so by its own history: these have equal rows of it.
TEST(DelayedFloat8, LayersThatReadOneTensorRoundItOnce) {
  auto run = [](bool share, Mesh mesh, int64_t& turned) {
    TinyRun llama = delayed(std::move(mesh));
    llama.model = "llama";
    if (!share) llama.options.skip_passes = {"share_scales"};
    llama.observe = [&](const LiveMesh& at, const compiler::Step& step) {
      if (at.rank != 0) return;
      turned = std::count_if(step.plan().body.nodes.begin(), step.plan().body.nodes.end(),
                             [](const Node& node) { return node.op == ops::quantize; });
    };
    return train_tiny(llama);
  };
  int64_t once = 0, each = 0, of_two = 0;
  const TinyResult shared = run(true, {{1}, {"dp_replicate"}}, once),
                   alone = run(false, {{1}, {"dp_replicate"}}, each);
  expect_same_bits(shared, alone, "a scale for each layer");
  EXPECT_EQ(each, 16)
      << "an input and a gradient of q, k, v and out in two blocks; gate is no multiple of 16";
  EXPECT_EQ(once, 12) << "of k and v no input";
  EXPECT_LT(shared.arena, alone.arena);
  expect_same(run(true, {{2}, {"dp_shard"}}, of_two), shared, "two ranks");
}

// The newest entry comes first, and what it was a step before is behind it.
TEST(DelayedFloat8, AHistoryHasTheLargestOfEachStep) {
  const std::string layer = "blocks.1.mlp.up";
  std::vector<std::unique_ptr<Left>> after;
  for (int64_t steps : {1, 2, 4})
    after.push_back(std::make_unique<Left>(delayed({{2}, {"dp_shard"}}, steps)));
  for (int64_t row : {0, 1, 2}) {
    EXPECT_GT(after[0]->entry(layer, row), 0) << row;
    EXPECT_EQ(after[0]->entry(layer, row, 1), 0) << row;
    EXPECT_EQ(after[1]->entry(layer, row, 1), after[0]->entry(layer, row)) << row;
    EXPECT_EQ(after[2]->entry(layer, row, 2), after[1]->entry(layer, row)) << row;
  }
  // A weight is that of the step's begin.
  EXPECT_EQ(after[1]->entry(layer, 1), largest_in_bf16(after[0]->read(layer + ".weight")));
}

// All micro-batches count: cut in other sizes, the first layer has read the same.
TEST(DelayedFloat8, MaximaAreThoseOfAllMicroBatches) {
  TinyRun halves = delayed({{1}, {"dp_replicate"}}, 1);
  halves.micro = 2;
  const Left whole(delayed({{1}, {"dp_replicate"}}, 1)), cut(halves);
  EXPECT_EQ(whole.entry("blocks.0.attn.qkv", 0), cut.entry("blocks.0.attn.qkv", 0));
}

TEST(DelayedFloat8, ASkippedStepLeavesHistoriesAsTheyWere) {
  TinyRun skips = delayed({{1}, {"dp_replicate"}}, 2);
  skips.blocked = {2};
  const Left one(delayed({{1}, {"dp_replicate"}}, 1)), two(skips);
  for (const char* layer : {"blocks.0.attn.qkv", "blocks.1.mlp.down"})
    EXPECT_EQ(one.read(std::string(layer) + ".amax_history"), two.read(std::string(layer) + ".amax_history"));
}

TEST(DelayedFloat8, GoesOnOnOtherRanks) {
  const TinyResult whole = train_tiny(delayed());
  const Left half(delayed({{3}, {"dp_shard"}}, 2));
  TinyRun rest = delayed({{2}, {"dp_replicate"}});
  rest.load = half.folder();
  const TinyResult resumed = train_tiny(rest);
  EXPECT_EQ(resumed.hash, whole.hash);
  EXPECT_EQ(resumed.losses.back(), whole.losses.back());
}

struct TwoLayersOptions {
  bool frozen = false;  // the layer in float8
  bool twice = false;   // it reads what it made, and 5 more, too
  bool delayed = true;  // else it multiplies in bf16
  int64_t rows = 16;    // of a micro-batch
  float largest = 1;    // of an input
};
// A layer in float8 below a head too small for it.
class TwoLayers {
 public:
  explicit TwoLayers(TwoLayersOptions options = {}) : options_(options) {
    state_.compute_dtype(DType::bf16);
    layer_.emplace(state_ / "layer", 32, 32), head_.emplace(state_ / "head", 32, 3);
    if (options.delayed) state_.float8({.recipe = Float8Recipe::delayed, .history = kSteps});
    if (options.frozen) state_.freeze({"layer.**"});
    adamw_.emplace(state_ / "optim", AdamWOptions{.lr = 1e-2});
  }
  // Steps that train, or tell the norm of the gradient of the layer's weight: the last one's norm, or loss.
  double run(bool train, int64_t steps) {
    compiler::CompileOptions options;
    options.precision = options_.delayed ? "float8" : "bf16";
    const int64_t rows = options_.rows;
    compiler::Step step = compiler::compile(
        state_, {{"x", DType::f32, {rows, 32}}, {"y", DType::f32, {rows, 3}}}, {2 * rows, rows, 0},
        [&](const std::vector<Tensor>& batch) {
          Tensor inner = tanh((*layer_)(batch[0]));
          if (options_.twice) inner = tanh((*layer_)(inner + 5.0f));
          const Loss loss = mse_loss((*head_)(inner), batch[1]);
          if (train)
            adamw_->update(grad(loss, state_.parameters()));
          else
            metric("norm", global_norm(grad(loss, {layer_->weight})));
          return loss;
        },
        options);
    program_ = print(step.program());
    if (!std::exchange(started_, true)) state_.materialize();
    double last = 0;
    for (int64_t i = 0; i < steps; ++i)
      last = step.run({++done_, [this](int64_t first, int64_t count,
                                       const std::vector<void*>& to) { fill(first, count, to); }})
                 .metrics.at(train ? "loss" : "norm");
    return last;
  }
  std::vector<float> history() { return values("layer.amax_history", kAmaxRows * kSteps); }
  std::vector<float> values(const std::string& fqn, int64_t count) {
    const auto* data = state_.find(fqn)->data.as<float>();
    return {data, data + count};
  }
  const std::string& program() const { return program_; }  // in words
  float first_input = NAN;  // instead of the first number of a micro-batch, where it is one

 private:
  void fill(int64_t first, int64_t count, const std::vector<void*>& to) const {
    for (size_t f = 0; f < 2; ++f)
      for (int64_t e = 0, each = f == 0 ? 32 : 3; e < count * each; ++e)
        static_cast<float*>(to[f])[e] =
            (f == 0 ? options_.largest : 1) * std::sin(static_cast<float>(first * each + e));
    if (!std::isnan(first_input)) static_cast<float*>(to[0])[0] = first_input;
  }
  TwoLayersOptions options_;
  LiveMesh mesh_ = solo_mesh();
  State state_{mesh_, 3};
  std::optional<Linear> layer_, head_;
  std::optional<AdamW> adamw_;
  std::string program_;
  bool started_ = false;
  int64_t done_ = 0;
};

TEST(DelayedFloat8, AStepThatUpdatesNothingAddsNoEntry) {
  TwoLayers model;
  model.run(true, 2);
  const std::vector<float> before = model.history();
  ASSERT_EQ(before.size(), 9u);
  EXPECT_GT(before[1], 0) << "the step before the last";
  model.run(false, 2);
  EXPECT_EQ(model.history(), before);
}

// The first weight of all is one that a convert leaves in float8 alone.
TEST(DelayedFloat8, AProgramSaysWhatRoundsItsWeights) {
  TwoLayers model;
  model.run(true, 1);
  EXPECT_NE(model.program().find("convert 4 tensors: [in float8 layer.weight] by the scale [scales"),
            std::string::npos)
      << model.program();
  EXPECT_NE(model.program().find(", rounded into [in float8 layer.weight] by the scale [scales"),
            std::string::npos)
      << model.program();
}

// An infinity would be rounded to the largest number and be lost: it is a NaN of the loss, and the step
// counts for nothing.
TEST(DelayedFloat8, AnInfinityIsSeenAndLeavesHistoriesAsTheyWere) {
  for (const float bad : {INFINITY, -INFINITY}) {
    TwoLayers model;
    model.run(true, 2);
    const std::vector<float> before = model.history(), weight = model.values("layer.weight", 1024);
    model.first_input = bad;
    EXPECT_TRUE(std::isnan(model.run(true, 1)));
    EXPECT_EQ(model.history(), before);
    EXPECT_EQ(model.values("layer.weight", 1024), weight);
  }
}

// Of all products of a layer the largest counts: that of its first, then that of its second one.
TEST(DelayedFloat8, ALayerThatIsUsedTwiceHasTheLargestOfBoth) {
  for (const float largest : {8.0f, 1.0f}) {
    TwoLayers model({.twice = true, .largest = largest});
    model.run(true, 1);
    EXPECT_NEAR(model.history().at(kAmaxOfInput * kSteps), std::max(largest, 5.0f), 0.5) << largest;
  }
}

// Before a history has an entry, the gradient of a mean over many is rounded as that of a sum: else it would
// be below the least number of e5m2.
TEST(DelayedFloat8, TheFirstGradientsOfAMeanOverManyAreNotLost) {
  constexpr int64_t kRows = 2048;
  const double exact = TwoLayers({.delayed = false, .rows = kRows}).run(false, 1),
               rounded = TwoLayers({.rows = kRows}).run(false, 1);
  EXPECT_GT(exact, 0);
  EXPECT_NEAR(rounded / exact, 1, 0.1);
}

// A layer that is not trained multiplies in float8 as well: its input and weight are seen, a gradient is not.
TEST(DelayedFloat8, AFrozenLayerHasAHistoryOfWhatItReads) {
  TwoLayers model({.frozen = true});
  model.run(true, 2);
  const std::vector<float> made = model.history();
  for (int64_t row : {0, 1}) {
    EXPECT_GT(made.at(row * kSteps), 0) << row;
    EXPECT_EQ(made.at(row * kSteps), made.at(row * kSteps + 1)) << row;
    EXPECT_EQ(made.at(row * kSteps + 2), 0) << row;
  }
  EXPECT_EQ(std::vector<float>(made.end() - kSteps, made.end()), std::vector<float>(kSteps, 0.0f));
}

}  // namespace
}  // namespace lockstep::tests
