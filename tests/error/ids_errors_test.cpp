// What is told of ids and labels outside of what they read: of the data, computed by a step, and constant.
#include "compiler/compile/forward.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/optim/adamw.h"
#include "distributed/open_world.h"
#include "tests/error/own_step_case.h"

namespace lockstep {

namespace {

std::string here(int line) { return str("ids_errors_test.cpp:", line); }

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

TEST(Ids, IdsOutsideTheirTable) {
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

TEST(Ids, TargetsOutsideTheirClasses) {
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
TEST(Ids, WhatALossDoesNotCountIsNoRow) {
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
TEST(Ids, IndicesOutsideTheirDim) {
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

TEST(Ids, IdsThatAFunctionMadeAreItsOwn) {
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
TEST(Ids, TargetsThatAStepComputes) {
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
  expect_words(
      told([](Tensor x, Tensor y) { return cross_entropy(x, y + 1); }, 9),
      {"[cross_entropy] ids_errors_test.cpp:",
       "\"y\" holds 9 in sample 1 of the step, at element 3, from which the step computes 10" + classes});
  const std::string made = "at element 2, from which the step computes 10" + classes;
  expect_words(told([](Tensor x, Tensor y) { return nll_loss(log_softmax(x), y * 5); }, 9),
               {"[nll_loss] ", made});
  expect_words(told([](Tensor x, Tensor y) { return cross_entropy(x, y * 5, {.smoothing = 0.1}); }, 9),
               {"[cross_entropy] ", made});
  expect_words(told([](Tensor x, Tensor y) { return nll_loss(log_softmax(x), y); }, 10),
               {"[nll_loss] ", "\"y\" holds 10 in sample 1 of the step, at element 3" + classes});
  expect_words(told([](Tensor x, Tensor y) { return multi_margin_loss(x, y - 1); }, 9),
               {"[multi_margin_loss] ",
                "\"y\" holds 0 in sample 0 of the step, at element 0, from which the step "
                "computes -1; each is a class of the logits f32[2,4,10], 0 to 9: mend"});
}

TEST(Ids, ConstantIdsOutsideWhatTheyRead) {
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
  expect_words(told({1, 7}, rows), {"[take] ids_errors_test.cpp:",
                                    "hold 7 at element 1; each is a row of f32[2,3], 0 to 1: mend"});
  expect_words(told({0, -1}, columns), {"hold -1 at element 1; each is a row of f32[3,2], 0 to 2: mend"});
  expect_words(told({2, 3}, places), {"[gather] ids_errors_test.cpp:", "hold 3 at element 1" + place});
  expect_words(told({-1, 2}, along), {"[gather] ids_errors_test.cpp:", "hold -1 at element 0" + place});
  expect_words(
      told({0, -1, 9, 1}, bags),
      {"[embedding_bag] ", "hold 9 at element 2; each is a row of f32[2,3], 0 to 1, or -1, which does"});
  expect_words(
      told({0, 3}, classes),
      {"[cross_entropy] ", "hold 3 at element 1; each is a class of the logits f32[2,3], 0 to 2, or -100"});
  EXPECT_EQ(told({1, 0}, rows) + told({2, 0}, places) + told({0, -100}, classes), "acceptedacceptedaccepted");
}

TEST(Ids, IdsOfAForward) {
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

}  // namespace
}  // namespace lockstep
