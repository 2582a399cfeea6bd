// A step function for batches of several shapes: each shape has the bits of a step that is compiled for it
// alone, on any ranks, with one state; and the refusals of StepsByShape, on their words.
#include "compiler/compile/steps_by_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compiler/compile/plan_observer.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/models/gpt.h"
#include "core/nn/layers.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

using namespace compiler;

struct Batch {
  int64_t samples, tokens, micro;  // micro: as it is to be chosen
};
// A whole batch, a last one that is smaller, one that no larger micro-batch divides, longer and shorter ones.
const std::vector<Batch> kBatches = {{8, 6, 4}, {6, 6, 3},  {8, 9, 4}, {5, 6, 1},
                                     {8, 6, 4}, {12, 4, 4}, {6, 6, 3}};

struct Model {
  explicit Model(State& state)
      : gpt(state.root(), {.vocab = 17, .context = 16, .width = 8, .depth = 1, .heads = 2, .dropout = 0.1}),
        adamw(state / "optim", {.lr = 1e-2, .clip = 1.0}) {}
  Loss operator()(State& state, const std::vector<Tensor>& batch) {
    Loss loss = cross_entropy(gpt(batch[0]), batch[1]);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }
  models::Gpt gpt;
  AdamW adamw;
};
std::vector<BatchField> fields(int64_t micro, int64_t tokens) {
  return {{"ids", DType::i32, {micro, tokens}}, {"targets", DType::i32, {micro, tokens}}};
}
float run(Step& step, int64_t number, const Batch& batch) {
  return step({number, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                 for (int64_t i = 0; i < count * batch.tokens; ++i)
                   for (int field : {0, 1})
                     static_cast<int32_t*>(to[field])[i] = static_cast<int32_t>(
                         philox::bits(1, 2, static_cast<uint64_t>(number),
                                      static_cast<uint64_t>(first * batch.tokens + i + field)) %
                         17);
               }});
}

struct Result {
  std::vector<float> losses;
  std::string hash;
  size_t shapes = 0;
  bool operator==(const Result& than) const { return losses == than.losses && hash == than.hash; }
};
// `by_shape`: one StepsByShape; else a step for each batch, compiled by hand.
Result train(const Mesh& words, bool by_shape) {
  Result out;
  distributed::local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    Model model(state);
    const StepFunction function = [&](const std::vector<Tensor>& batch) { return model(state, batch); };
    std::unique_ptr<StepsByShape> steps;
    if (by_shape)
      steps = std::make_unique<StepsByShape>(state, fields(4, 6), BatchShape{8, 4, 2}, function,
                                             CompileOptions{});
    Result mine;
    std::vector<Step> own;
    if (!by_shape)
      for (const Batch& b : kBatches) {
        const int64_t count = b.samples / b.micro;
        own.push_back(compile(state, fields(b.micro, b.tokens), {b.samples, b.micro, count % 2 ? 0 : 2},
                              function, CompileOptions{}));
      }
    state.materialize();
    for (size_t i = 0; i < kBatches.size(); ++i) {
      const Batch& b = kBatches[i];
      Step& step = by_shape ? steps->at(b.samples, {{b.tokens}, {b.tokens}}) : own[i];
      mine.losses.push_back(run(step, static_cast<int64_t>(i) + 1, b));
    }
    mine.hash = state_hash(std::as_const(state).arrays(), mesh);
    mine.shapes = by_shape ? steps->size() : 0;
    if (mesh.rank == 0) out = mine;
  });
  return out;
}

TEST(StepsByShape, EachShapeHasTheBitsOfItsOwnStepOnAnyRanks) {
  const Result alone = train({{1}, {"dp_replicate"}}, false);
  EXPECT_NE(alone.losses[0], alone.losses[4]);
  for (const Mesh& mesh :
       {Mesh{{1}, {"dp_replicate"}}, Mesh{{2}, {"dp_replicate"}}, Mesh{{3}, {"dp_shard"}}}) {
    const Result got = train(mesh, true);
    EXPECT_EQ(got.losses, alone.losses) << text(mesh);
    EXPECT_EQ(got.hash, alone.hash) << text(mesh);
    EXPECT_EQ(got.shapes, 5u);
  }
}

// Where no micro-batch is given, each shape has its own: a part of the batch, or, of a step that mixes its
// samples, the whole.
TEST(StepsByShape, EachShapeHasItsDefaultMicroBatch) {
  distributed::local_mesh(2, {{2}, {"dp_replicate"}}, [&](LiveMesh& mesh) {
    for (const bool mixes : {false, true}) {
      State state(mesh, 3);
      Linear layer(state / "layer", 4, 4);
      AdamW adamw(state / "optim", {.lr = 1e-2});
      const StepFunction function = [&](const std::vector<Tensor>& batch) {
        Tensor y = layer(batch[0]);
        if (mixes) y = y - mean(y, {0}, true);
        const Loss loss = mean_loss(square(y));
        adamw.update(grad(loss, state.parameters()));
        return loss;
      };
      StepsByShape steps(state, {{"x", DType::f32, {0, 4}}}, {16, 0, 0}, function, CompileOptions{});
      EXPECT_EQ(steps.first().plan().micro_batches, mixes ? 1 : 4);
      EXPECT_EQ(steps.at(6, {{4}}).plan().micro_batches, mixes ? 1 : 6);
      EXPECT_EQ(steps.at(24, {{4}}).plan().micro_batches, mixes ? 1 : 4);
    }
  });
}

// A number of pieces that the first shape has; smaller micro-batches have as many as divide them.
TEST(StepsByShape, ASmallerMicroBatchIsCutIntoFewerPieces) {
  distributed::local_mesh(2, {{2}, {"tp"}}, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    Model model(state);
    state.place_by_default(models::Gpt::placements());
    CompileOptions options;
    options.tp_pieces = 4, options.backend = Backend::reference;
    StepsByShape steps(
        state, fields(4, 8), {8, 4, 0}, [&](const std::vector<Tensor>& batch) { return model(state, batch); },
        options);
    state.materialize();
    const auto pieces = [](const Step& step) {
      int64_t out = 1;
      for (const Node& node : step.plan().body.nodes)
        if (node.attrs.flag("pieces")) out = static_cast<int64_t>(node.inputs.size());
      return out;
    };
    EXPECT_EQ(pieces(steps.first()), 4);
    int64_t number = 0;
    for (const auto& [samples, count] : {std::pair<int64_t, int64_t>{6, 3}, {2, 2}, {5, 4}}) {
      Step& step = steps.at(samples, {{8}, {8}});
      EXPECT_EQ(pieces(step), count) << samples << " samples";
      EXPECT_GT(run(step, ++number, {samples, 8, 1}), 0);
    }
  });
}

// Steps whose scalars count other updates now than they were compiled for cannot run again: they are gone
// before others are compiled, and where that fails the next call tries again.
TEST(StepsByShape, StepsThatCannotRunAreGoneBeforeOthersAreCompiled) {
  State state(solo_mesh(), 3);
  const Linear one(state / "one", 4, 4), two(state / "two", 4, 4);
  AdamW adamw(state / "optim", {.lr = 1e-2});
  bool fails = false;
  const auto step_of = [&](bool both) {
    return [&, both](const std::vector<Tensor>& batch) {
      if (fails) throw UserError("the function fails");
      const Tensor y = one(batch[0]);
      const Loss loss = mean_loss(square(both ? two(y) : y));
      adamw.update(grad(loss, state.parameters()));
      return loss;
    };
  };
  const auto x = [](int64_t number) {
    return StepInput{number, [](int64_t, int64_t count, const std::vector<void*>& to) {
                       std::fill_n(static_cast<float*>(to[0]), count * 4, 0.5f);
                     }};
  };
  StepsByShape steps(state, {{"x", DType::f32, {2, 4}}}, {4, 2, 0}, step_of(true), {});
  steps.at(4, {{4}}).run(x(1));
  steps.at(2, {{4}}).run(x(2));
  Step part = compile(state, {{"x", DType::f32, {2, 4}}}, {4, 2, 0}, step_of(false), {});
  part.run(x(3));
  EXPECT_EQ(steps.size(), 2u);
  fails = true;
  EXPECT_THROW(steps.at(2, {{4}}), UserError);
  EXPECT_EQ(steps.size(), 0u);
  EXPECT_THROW(steps.at(2, {{4}}), UserError);
  fails = false;
  std::vector<size_t> kept;
  set_plan_observer([&](const StepPlan&, const State&, const Step*) { kept.push_back(steps.size()); });
  steps.at(2, {{4}}).run(x(4));
  set_plan_observer({});
  EXPECT_EQ(kept, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(steps.size(), 2u);
}

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const UserError& error) { return error.what(); }
  ADD_FAILURE() << "no UserError";
  return "";
}
void expect_words(const std::string& said, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(said.find(word), std::string::npos) << "no \"" << word << "\" in: " << said;
}

TEST(StepsByShape, RefusalsSayBothShapesAndTheWayOut) {
  State state(solo_mesh(), 3);
  Model model(state);
  const StepFunction function = [&](const std::vector<Tensor>& batch) { return model(state, batch); };
  expect_words(
      refusal([&] { StepsByShape(state, fields(4, 6), {8, 4, 0}, function, {}, 0); }),
      {"[step] steps_by_shape_test.cpp:", "at most 0 shapes may be kept, and a step has at least 1"});
  StepsByShape steps(state, fields(4, 6), {8, 4, 0}, function, {}, 2);
  EXPECT_EQ(&steps.at(8, {{6}, {6}}), &steps.first());
  steps.at(4, {{6}, {6}});
  expect_words(
      refusal([&] { steps.at(2, {{7}, {7}}); }),
      {"[step] steps_by_shape_test.cpp:",
       "a batch of ids i32[2,7], targets i32[2,7] is shape 3 of this step, and at most 2 are kept",
       "the first is ids i32[8,6], targets i32[8,6]", "pad batches to fewer shapes, or raise max_shapes"});
  expect_words(refusal([&] { steps.at(0, {{6}, {6}}); }), {"a batch of 0 samples; a step needs at least 1"});
  expect_words(refusal([&] { steps.at(8, {{6}}); }), {"shapes of 1 fields are given, and the step reads 2"});
  expect_words(refusal([&] { steps.at(8, {{6}, {6, 1}}); }),
               {"a sample of field \"targets\" is i32[6,1], and the step was written for i32[6]",
                "sizes may differ from batch to batch, not the number of dims"});
  steps.at(8, {{6}, {6}});
  EXPECT_EQ(steps.size(), 2u);
}

}  // namespace
}  // namespace lockstep
