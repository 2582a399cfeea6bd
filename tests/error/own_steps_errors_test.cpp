// What a program of one's own may get wrong, on the words it is told: functions, ids, scalars, updates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "compiler/compile.h"
#include "compiler/forward.h"
#include "core/base/error.h"
#include "core/nn/assign.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"
#include "distributed/open_world.h"

namespace lockstep {

using namespace compiler;

namespace {

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const UserError& error) { return error.what(); } catch (const std::exception& error) {
    return str("no UserError: ", error.what());
  }
  return "accepted";
}
void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
}
std::string here(int line) { return str("own_steps_errors_test.cpp:", line); }

// Eight samples of four tokens, two at a time; what `spoil` does to them.
using Spoil = std::function<void(int64_t first, std::vector<int32_t*> fields)>;
StepInput batch(const Spoil& spoil) {
  return {1, [spoil](int64_t first, int64_t count, const std::vector<void*>& fields) {
            std::vector<int32_t*> ids;
            for (void* field : fields) {
              ids.push_back(static_cast<int32_t*>(field));
              for (int64_t i = 0; i < count * 4; ++i)
                ids.back()[i] = static_cast<int32_t>((first * 4 + i) % 10);
            }
            spoil(first, ids);
          }};
}
const std::vector<BatchField> kFields = {{"ids", DType::i32, {2, 4}}, {"y", DType::i32, {2, 4}}};

// A table of 16 rows and a head of 10 classes.
struct Model {
  State state;
  Embedding tok{state / "tok", 16, 8};
  Linear head{state / "head", 8, 10};
  AdamW opt{state / "optim", {}};
  int line = 0;
  Model() : state(solo_mesh(), 1) {}
  Step step(Backend backend = Backend::native) {
    CompileOptions options;
    options.backend = backend;
    return compile(
        state, kFields, {8, 2, 0},
        [&](const std::vector<Tensor>& b) {
          line = __LINE__ + 1;
          Loss loss = cross_entropy(head(tok(reshape(b[0], {8}))), reshape(b[1], {8}));
          opt.update(grad(loss, state.parameters()));
          return loss;
        },
        options);
  }
};

TEST(OwnSteps, IdsOutsideTheirTable) {
  Model model;
  Step step = model.step();
  model.state.materialize();
  const double loss = step.run(batch([](int64_t, auto) {})).metrics.at("loss");
  for (int32_t wrong : {16, -1, 50257}) {
    const std::string words = refusal([&] {
      step.run(batch([&](int64_t first, auto fields) {
        if (first == 4) fields[0][4 + 3] = wrong;  // the second sample of the third micro-batch
      }));
    });
    EXPECT_EQ(words,
              str("[embedding] ", here(model.line), " (tok): the batch field \"ids\" holds ", wrong,
                  " in sample 5 of the step, at element 3; each is a row of f32[16,8], 0 to 15: mend the "
                  "data, or make the table larger"));
  }
  // Nothing was updated by a step that was refused.
  Model again;
  Step fresh = again.step();
  again.state.materialize();
  EXPECT_EQ(fresh.run(batch([](int64_t, auto) {})).metrics.at("loss"), loss);
  EXPECT_EQ(fresh.run(batch([](int64_t, auto) {})).metrics.at("loss"),
            step.run(batch([](int64_t, auto) {})).metrics.at("loss"));
}

TEST(OwnSteps, TargetsOutsideTheirClasses) {
  for (Backend backend : {Backend::native, Backend::reference}) {
    Model model;
    Step step = model.step(backend);
    model.state.materialize();
    for (int32_t wrong : {10, -1}) {
      const std::string words = refusal([&] {
        step.run(batch([&](int64_t first, auto fields) {
          if (first == 2) fields[1][0] = wrong;
        }));
      });
      EXPECT_EQ(words,
                str("[cross_entropy] ", here(model.line), ": the batch field \"y\" holds ", wrong,
                    " in sample 2 of the step, at element 0; each is a class of the logits f32[8,10], 0 to "
                    "9, or -100, which does not count: mend the data, or make the logits wider"));
    }
    EXPECT_EQ(refusal([&] { step.run(batch([](int64_t, auto fields) { fields[1][2] = -100; })); }),
              "accepted");
  }
}

// What a loss does not count is a target alone: the same number is no row of a table.
TEST(OwnSteps, WhatALossDoesNotCountIsNoRow) {
  State state(solo_mesh(), 1);
  Embedding tok(state / "tok", 16, 8);
  Linear head(state / "head", 8, 16);
  AdamW opt(state / "optim", {});
  Step step = compile(state, kFields, {8, 2, 0},
                      [&](const std::vector<Tensor>& b) {
                        const CrossEntropyOptions minus_one{.ignore_index = -1};
                        Tensor logits = head(tok(b[0]));
                        Loss loss = cross_entropy(logits, b[0], minus_one);
                        metric("other", cross_entropy(logits, b[1], minus_one));
                        opt.update(grad(loss, state.parameters()));
                        return loss;
                      },
                      {});
  state.materialize();
  auto with = [&](size_t field, int32_t id) {
    return refusal([&] { step.run(batch([&](int64_t, auto fields) { fields[field][1] = id; })); });
  };
  EXPECT_EQ(with(1, -1), "accepted");
  expect_words(with(1, -100),
               {"[cross_entropy] ", "\"y\" holds -100", "0 to 15, or -1, which does not count"});
  expect_words(with(0, -1), {"[embedding] ", "\"ids\" holds -1", "a row of f32[16,8], 0 to 15: mend"});
}

// Along a dim they are told as they are, not as places among all elements.
TEST(OwnSteps, IndicesOutsideTheirDim) {
  State state(solo_mesh(), 1);
  Linear head(state / "head", 4, 6);
  AdamW opt(state / "optim", {});
  const bool adds[] = {false, true};
  for (const bool add : adds) {
    int line = 0;
    Step step = compile(state, {{"ids", DType::i32, {2, 4}}, {"y", DType::i32, {2, 4}}}, {8, 2, 0},
                        [&](const std::vector<Tensor>& b) {
                          const Tensor x = head(convert(b[0], DType::f32) * 0.1);
                          line = __LINE__ + 1;
                          Tensor y = add ? scatter_add(x, 1, b[1], slice(x, 1, 0, 4)) : gather(x, 1, b[1]);
                          Loss loss = mean_loss(square(y));
                          opt.update(grad(loss, state.parameters()));
                          return loss;
                        },
                        {});
    state.materialize();
    const auto with = [&](int32_t id) {
      return refusal([&] {
        step.run({1, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                    for (int64_t i = 0; i < 4 * count; ++i)
                      static_cast<int32_t*>(to[0])[i] = 1,
                      static_cast<int32_t*>(to[1])[i] = first + i / 4 == 3 && i % 4 == 2 ? id : 5;
                  }});
      });
    };
    EXPECT_EQ(with(0), "accepted");
    for (const int32_t id : {6, -1})
      EXPECT_EQ(
          with(id),
          str(add ? "[scatter_add] " : "[gather] ", here(line), ": the batch field \"y\" holds ", id,
              " in sample 3 of the step, at element 2; each is a place along dim 1 of f32[2,6], 0 to 5: "
              "mend the data, or make the dim larger"));
  }
}

TEST(OwnSteps, IdsThatAFunctionMadeAreItsOwn) {
  State state(solo_mesh(), 1);
  Embedding tok(state / "tok", 16, 10);
  AdamW opt(state / "optim", {});
  Step step = compile(state, kFields, {8, 2, 0},
                      [&](const std::vector<Tensor>& b) {
                        Tensor inside = where(b[0] < 0, full_like(b[0], 0), b[0]);
                        Loss loss = cross_entropy(tok(inside), b[1]);
                        opt.update(grad(loss, state.parameters()));
                        return loss;
                      },
                      {});
  state.materialize();
  EXPECT_EQ(refusal([&] { step.run(batch([](int64_t, auto fields) { fields[0][1] = -1; })); }), "accepted");
}

// Losses say the range of their targets, whichever ops they are made of, and of what is added to a field.
TEST(OwnSteps, TargetsThatAStepComputes) {
  const auto told = [](const std::function<Loss(Tensor, Tensor)>& function, int32_t last) {
    State state(solo_mesh(), 1);
    Linear head(state / "head", 4, 10);
    Step step = compile(state, {{"y", DType::i32, {2, 4}}}, {8, 2, 0},
                        [&](const std::vector<Tensor>& b) {
                          Tensor logits = broadcast_to(head(ones(b[0], {4}, DType::f32)), {2, 4, 10});
                          return function(logits, b[0]);
                        },
                        {});
    state.materialize();
    return refusal([&] { step.run(batch([&](int64_t, auto fields) { fields[0][7] = last; })); });
  };
  const std::string classes =
      "; each is a class of the logits f32[2,4,10], 0 to 9, or -100, which does not count";
  EXPECT_EQ(told([](Tensor x, Tensor y) { return cross_entropy(x, y * 0 + 9); }, 9), "accepted");
  EXPECT_EQ(told([](Tensor x, Tensor y) { return cross_entropy(x, 9 - y); }, 9), "accepted");
  expect_words(told([](Tensor x, Tensor y) { return cross_entropy(x, y + 1); }, 9),
               {"[cross_entropy] own_steps_errors_test.cpp:",
                "\"y\" holds 9 in sample 1 of the step, at element 3, of which the step makes 10" + classes});
  const std::string made = "at element 2, of which the step makes 10" + classes;
  expect_words(told([](Tensor x, Tensor y) { return nll_loss(log_softmax(x), y * 5); }, 9),
               {"[nll_loss] ", made});
  expect_words(told([](Tensor x, Tensor y) { return cross_entropy(x, y * 5, {.smoothing = 0.1}); }, 9),
               {"[cross_entropy] ", made});
  expect_words(told([](Tensor x, Tensor y) { return nll_loss(log_softmax(x), y); }, 10),
               {"[nll_loss] ", "\"y\" holds 10 in sample 1 of the step, at element 3" + classes});
  expect_words(told([](Tensor x, Tensor y) { return multi_margin_loss(x, y - 1); }, 9),
               {"[multi_margin_loss] ",
                "\"y\" holds 0 in sample 0 of the step, at element 0, of which the step "
                "makes -1; each is a class of the logits f32[2,4,10], 0 to 9: mend"});
}

TEST(OwnSteps, ConstantIdsOutsideWhatTheyRead) {
  using Function = std::function<Tensor(Tensor x, Tensor ids)>;
  const auto told = [](std::vector<Number> ids, const Function& function) {
    State state(solo_mesh(), 1);
    const auto of = [&](const std::vector<Tensor>& b) {
      return function(b[0], constant(b[0], ids, DType::i32));
    };
    return refusal([&] { Forward(state, {{"x", DType::f32, {2, 3}}}, of, {}); });
  };
  const Function rows = [](Tensor x, Tensor i) { return index_select(x, 0, i); },
                 columns = [](Tensor x, Tensor i) { return index_select(x, 1, i); },
                 places = [](Tensor x, Tensor i) { return gather(x, 1, reshape(i, {2, 1})); },
                 along = [](Tensor x, Tensor i) { return take_along_dim(x, reshape(i, {2, 1}), 1); },
                 bags = [](Tensor x, Tensor i) { return embedding_bag(x, reshape(i, {2, 2})); },
                 classes = [](Tensor x, Tensor i) { return cross_entropy(x, i).sum; };
  const std::string place = "; each is a place along dim 1 of f32[2,3], 0 to 2: mend the constant";
  expect_words(told({1, 7}, rows), {"[take] own_steps_errors_test.cpp:",
                                    "hold 7 at element 1; each is a row of f32[2,3], 0 to 1: mend"});
  expect_words(told({0, -1}, columns), {"hold -1 at element 1; each is a row of f32[3,2], 0 to 2: mend"});
  expect_words(told({2, 3}, places), {"[gather] own_steps_errors_test.cpp:", "hold 3 at element 1" + place});
  expect_words(told({-1, 2}, along), {"[gather] own_steps_errors_test.cpp:", "hold -1 at element 0" + place});
  expect_words(
      told({0, -1, 9, 1}, bags),
      {"[embedding_bag] ", "hold 9 at element 2; each is a row of f32[2,3], 0 to 1, or -1, which does"});
  expect_words(
      told({0, 3}, classes),
      {"[cross_entropy] ", "hold 3 at element 1; each is a class of the logits f32[2,3], 0 to 2, or -100"});
  EXPECT_EQ(told({1, 0}, rows) + told({2, 0}, places) + told({0, -100}, classes), "acceptedacceptedaccepted");
}

// A constant count is one of each micro-batch, whatever the first field's dtype.
TEST(OwnSteps, AFieldOfBool) {
  State state(solo_mesh(), 1);
  Linear head(state / "head", 4, 1);
  const auto loss = [&](const std::vector<Tensor>& b) { return mean_loss(head(convert(b[0], DType::f32))); };
  Step step = compile(state, {{"on", DType::boolean, {2, 4}}}, {8, 2, 0}, loss, {});
  state.materialize();
  const StepInput input{1, [](int64_t, int64_t count, const std::vector<void*>& fields) {
                          std::fill_n(static_cast<bool*>(fields[0]), count * 4, false);
                        }};
  EXPECT_TRUE(std::isfinite(step.run(input).metrics.at("loss")));
}

TEST(OwnSteps, IdsOfAForward) {
  State state(solo_mesh(), 1);
  Embedding tok(state / "tok", 16, 8);
  int line = 0;
  Forward forward(state, {kFields[0]},
                  [&](const std::vector<Tensor>& b) {
                    line = __LINE__ + 1;
                    return tok(b[0]);
                  },
                  {});
  state.materialize();
  std::vector<int32_t> ids{0, 1, 2, 3, 4, 5, 6, 16};
  expect_words(refusal([&] { forward.run({ids.data()}); }),
               {"[embedding] " + here(line) + " (tok): the batch field \"ids\" holds 16 in sample 1"});
}

// What a forward gives is its function's alone.
TEST(OwnSteps, AForwardThatUpdatesOrReadsAnOptimizersNumber) {
  State state(solo_mesh(), 1);
  Embedding tok(state / "tok", 16, 8);
  Tensor kept;
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
  int line = 0;
  auto made = [&](const Function& function) {
    return refusal([&] {
      line = __LINE__ + 1;
      Forward(state, {kFields[0]}, function, {});
    });
  };
  std::string words = made([&](const std::vector<Tensor>& b) {
    assign(tok.weight, tok.weight(b[0]) * 2);
    return tok(b[0]);
  });
  expect_words(words, {"[forward] " + here(line) +
                       ": the function updates \"tok.weight\", and a forward changes nothing"});
  words = made([&](const std::vector<Tensor>& b) { return tok(b[0]) * scalar(b[0], "optim.lr"); });
  expect_words(words, {"[forward] " + here(line) + ": the function reads the scalar \"optim.lr\""});
  EXPECT_EQ(made([&](const std::vector<Tensor>& b) { return kept = tok(b[0]); }), "accepted");
  expect_words(made([&](const std::vector<Tensor>&) { return kept; }),
               {"the function gave a tensor that is not of this call"});
  expect_words(refusal([&] {
                 Forward(state, {kFields[0]},
                         [](const std::vector<Tensor>&) { return std::vector<Tensor>(); }, {});
               }),
               {"the function gave no result; it gives one or more"});
}

// Functions by the name of their op.
TEST(OwnSteps, FunctionsByName) {
  auto builder = std::make_shared<Builder>();
  Tensor x(builder, builder->graph.add_input(InputKind::value, "x", DType::f32, {4}));
  int line = __LINE__ + 1;
  expect_words(refusal([&] { apply1("clamp", {x}, {{"lo", -1.0}}); }), {"[clamp] " + here(line), "\"hi\""});
  line = __LINE__ + 1;
  expect_words(refusal([&] { apply1(intern("sofmax"), {x}); }),
               {"[sofmax] " + here(line), "no op is named \"sofmax\"; did you mean \"softmax\"?"});
}

// The message of compiling a step with this loss.
std::string compiling(const std::function<void(State&)>& record,
                      const std::function<Loss(State&, Embedding&, Tensor ids, Tensor y)>& function) {
  State state(solo_mesh(), 1);
  Embedding tok(state / "tok", 16, 8);
  record(state);
  AdamW opt(state / "optim", {});
  return refusal([&] {
    compile(state, kFields, {8, 2, 0},
            [&](const std::vector<Tensor>& b) {
              Loss loss = function(state, tok, b[0], b[1]);
              opt.update(grad(loss, state.parameters()));
              return loss;
            },
            {});
  });
}

TEST(OwnSteps, AParameterOfRankZero) {
  expect_words(compiling([](State& state) { state.root().parameter("scale", {}, init::ones()); },
                         [](State& state, Embedding& tok, Tensor ids, Tensor y) {
                           return cross_entropy(tok(ids) * state.find_spec("scale")(ids), y);
                         }),
               {"own_steps_errors_test.cpp:", "the parameter \"scale\" has rank 0",
                "give it the shape [1], which broadcasts alike"});
}

TEST(OwnSteps, AnIntegerMetricOfWeights) {
  expect_words(compiling([](State&) {},
                         [](State&, Embedding& tok, Tensor ids, Tensor y) {
                           Tensor out = tok(ids);
                           metric("right", sum_lanes(sum(convert(argmax(out, -1) == y, DType::i64))));
                           return cross_entropy(out, y);
                         }),
               {"[sum_lanes] own_steps_errors_test.cpp:", "reads the state \"tok.weight\"",
                "a metric that depends on weights is summed as f32: convert it first"});
}

TEST(OwnSteps, TwoOptimizersOfOneTensor) {
  State state(solo_mesh(), 1);
  Embedding tok(state / "tok", 16, 10);
  AdamW first(state / "first", {}), second(state / "second", {});
  expect_words(refusal([&] {
                 compile(state, kFields, {8, 2, 0},
                         [&](const std::vector<Tensor>& b) {
                           Loss loss = cross_entropy(tok(b[0]), b[1]);
                           first.update(grad(loss, state.parameters()));
                           second.update(grad(loss, state.parameters()));
                           return loss;
                         },
                         {});
               }),
               {"[second] own_steps_errors_test.cpp:", "\"tok.weight\" is updated twice in one step"});
}

TEST(OwnSteps, AForwardOfSeveralRanks) {
  distributed::local_mesh(2, {{2}, {"dp_replicate"}}, [](LiveMesh& mesh) {
    State state(mesh, 1);
    Embedding tok(state / "tok", 16, 8);
    int line = 0;
    auto forward = [&](const std::vector<Tensor>& b) { return tok(b[0]); };
    const std::string words = refusal([&] {
      line = __LINE__ + 1;
      Forward(state, {kFields[0]}, forward, {});
    });
    expect_words(words, {"[forward] " + here(line),
                         "a Forward runs on one rank, and the state is on the mesh [dp_replicate=2]",
                         "load the checkpoint into a state of one rank"});
  });
}

// Ranks that cannot talk would each be a run of its own.
TEST(OwnRanks, NobodySaysHowTheyTalk) {
  using Variables = std::map<std::string, std::string>;
  auto opened_under = [](const Variables& variables) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    const std::string out = refusal([] { distributed::open_world(); });
    for (const auto& [name, value] : variables) unsetenv(name.c_str());
    return out;
  };
  expect_words(opened_under({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
               {"this process is rank 1 of 2 by RANK and WORLD_SIZE", "no MPI, no PMI",
                "trainrun --nproc 2 PROGRAM", "unset RANK and WORLD_SIZE"});
  expect_words(opened_under({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}}),
               {"this process is task 1 of 4 by SLURM_PROCID", "srun --mpi=pmix"});
  EXPECT_EQ(opened_under({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "accepted");
  EXPECT_EQ(opened_under({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}), "accepted");  // a batch script
}

}  // namespace
}  // namespace lockstep
