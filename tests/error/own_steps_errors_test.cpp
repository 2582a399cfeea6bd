// What a program of one's own may get wrong, on the words it is told: functions, scalars, updates.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "compiler/compile/forward.h"
#include "core/nn/assign.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/optim/adamw.h"
#include "distributed/local/local_world.h"
#include "distributed/open_world.h"
#include "tests/error/own_step_case.h"

namespace lockstep {

namespace {

std::string here(int line) { return str("own_steps_errors_test.cpp:", line); }

TEST(OwnSteps, AStateWhoseBytesCannotBeCounted) {
  State state(solo_mesh(), 1);
  const int64_t half = int64_t{1} << 31;
  for (const Shape& shape : {Shape{half, 2 * half}, Shape{half, half, half}, Shape{int64_t{1} << 62, 4}}) {
    const int line = __LINE__ + 2;
    expect_words(
        refusal([&] { state.root().parameter("p", shape, init::zeros()); }),
        {"\"p\" at " + here(line), shape_text(DType::f32, shape) + " has more bytes than 64 bits can count"});
  }
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
                "give it the shape [1], which broadcasts in the same way"});
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
