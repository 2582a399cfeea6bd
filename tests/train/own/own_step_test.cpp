// Step functions that models do not write: combined parameters, several optimizers, parameters beside the
// data. Native against eager and reference.
#include <gtest/gtest.h>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/nn/assign.h"
#include "core/optim/adamw.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

// What a case records in the state and how it computes its loss; `optimizers` run in order.
struct Own {
  std::function<void(State&)> record;
  std::function<Loss(State&, const Tensor& x)> loss;
  std::function<void(State&, const Loss&)> update;
};

Tensor parameter(State& state, const std::string& fqn, const Tensor& beside) {
  return state.find_spec(fqn)(beside);
}

std::string hash_of(const Own& own, compiler::Backend backend, int ranks) {
  std::string hash;
  distributed::with_ranks(ranks, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    own.record(state);
    compiler::CompileOptions options;
    options.backend = backend;
    compiler::Step step = compile(
        state, {{"x", DType::f32, {2, 8}}}, {8, 2, 0},
        [&](const std::vector<Tensor>& batch) {
          Loss loss = own.loss(state, batch[0]);
          own.update(state, loss);
          return loss;
        },
        options);
    state.materialize();
    for (int64_t i = 1; i <= 3; ++i)
      step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
                  for (int64_t e = 0; e < count * 8; ++e)
                    static_cast<float*>(fields[0])[e] =
                        philox::uniform(philox::bits(5, 6, static_cast<uint64_t>(i),
                                                     static_cast<uint64_t>(first * 8 + e))) -
                        0.5f;
                }});
    std::string mine = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank == 0) hash = mine;
  });
  return hash;
}

Loss squares(const Tensor& y) {
  return {sum(y * y, {0, 1}), sum(convert(full_like(y, 1), DType::i64), {0, 1})};
}
void record_pair(State& state) {
  state.root().parameter("a", {6, 8}, init::normal(0.5));
  state.root().parameter("b", {6, 8}, init::normal(0.5));
}

void expect_one_hash(const Own& own) {
  std::string eager = hash_of(own, compiler::Backend::eager, 1);
  EXPECT_EQ(hash_of(own, compiler::Backend::native, 1), eager);
  EXPECT_EQ(hash_of(own, compiler::Backend::native, 3), eager);
}

// One kernel turns a gradient into another one of the same bucket: the first must still be there when the
// bucket is read.
TEST(OwnStep, GradientsThatAreMadeOfGradients) {
  for (bool tanh_of_b : {false, true})
    expect_one_hash(
        {[](State& state) {
           record_pair(state);
           AdamW(state / "optim", {.lr = 1e-2});
         },
         [=](State& state, const Tensor& x) {
           Tensor a = parameter(state, "a", x), b = parameter(state, "b", x);
           return squares(linear(x, tanh_of_b ? a + tanh(b) : a - b));
         },
         [](State& state, const Loss& loss) {
           // The optimizer of `record` gave the state its moments and scalars; its update is written here by
           // hand.
           Gradients gradients = grad(loss, state.parameters());
           for (size_t i = 0; i < gradients.values.size(); ++i) {
             Tensor g = gradients.values[i];
             std::string fqn = gradients.parameters[i].fqn();
             auto made =
                 apply("adamw",
                       {parameter(state, fqn, g), g, parameter(state, "optim." + fqn + ".exp_avg", g),
                        parameter(state, "optim." + fqn + ".exp_avg_sq", g), scalar(g, "optim.lr"),
                        scalar(g, "optim.bias1"), scalar(g, "optim.bias2"), full(g, {}, 1.0, DType::f32)},
                       {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}});
             Graph& graph = g.builder()->graph;
             graph.add_output(OutputKind::state, fqn, made[0].id());
             graph.add_output(OutputKind::state, "optim." + fqn + ".exp_avg", made[1].id());
             graph.add_output(OutputKind::state, "optim." + fqn + ".exp_avg_sq", made[2].id());
           }
         }});
}

// The same kind of optimizer twice, with rates of its own each.
std::string two_rates(double first, double second, compiler::Backend backend) {
  std::vector<std::unique_ptr<Sgd>> optimizers;
  Own own{[&](State& state) {
            optimizers.clear();
            record_pair(state);
            optimizers.push_back(std::make_unique<Sgd>(state / "first", SgdOptions{.lr = first}));
            optimizers.push_back(std::make_unique<Sgd>(state / "second", SgdOptions{.lr = second}));
          },
          [](State& state, const Tensor& x) {
            return squares(linear(x, parameter(state, "a", x)) + linear(x, parameter(state, "b", x)));
          },
          [&](State& state, const Loss& loss) {
            Gradients all = grad(loss, state.parameters());
            for (size_t i = 0; i < 2; ++i) optimizers[i]->update({{all.parameters[i]}, {all.values[i]}});
          }};
  return hash_of(own, backend, 1);
}
TEST(OwnStep, TwoOptimizersKeepTheirRates) {
  EXPECT_EQ(two_rates(1e-1, 1e-3, compiler::Backend::native),
            two_rates(1e-1, 1e-3, compiler::Backend::eager));
  EXPECT_NE(two_rates(1e-1, 1e-3, compiler::Backend::native),
            two_rates(1e-1, 1e-1, compiler::Backend::native));
}

// A term of the loss that no data reaches: its gradient still belongs to a micro-batch.
TEST(OwnStep, ParametersThatTheLossReadsAloneOrNotAtAll) {
  std::unique_ptr<Sgd> optimizer;
  Own own{[&](State& state) {
            record_pair(state);
            state.root().parameter("unread", {3}, init::ones());
            optimizer = std::make_unique<Sgd>(state / "optim", SgdOptions{.lr = 1e-2});
          },
          [](State& state, const Tensor& x) {
            Tensor b = parameter(state, "b", x);
            Loss loss = squares(linear(x, parameter(state, "a", x)));
            return Loss{loss.sum + sum(b * b, {0, 1}), loss.count};
          },
          [&](State& state, const Loss& loss) { optimizer->update(grad(loss, state.parameters())); }};
  std::string one = hash_of(own, compiler::Backend::native, 1);
  EXPECT_EQ(one, hash_of(own, compiler::Backend::eager, 1));
}

TEST(OwnStep, TheOldAndTheNewValueOfAStateAtOnceAreRefused) {
  std::unique_ptr<Sgd> optimizer;
  Own own{[&](State& state) {
            record_pair(state);
            optimizer = std::make_unique<Sgd>(state / "optim", SgdOptions{.lr = 1e-2});
          },
          [](State& state, const Tensor& x) { return squares(linear(x, parameter(state, "a", x))); },
          [&](State& state, const Loss& loss) {
            Gradients gradients = grad(loss, state.parameters());
            optimizer->update(gradients);
            Tensor g = gradients.values[0];
            const Parameter a = state.find_spec("a");
            g.builder()->graph.add_output(OutputKind::metric, "change",
                                          sum(assigned(a, g) - a(g), {0, 1}).id());
          }};
  try {
    hash_of(own, compiler::Backend::native, 1);
    FAIL() << "a metric read a parameter before and after its update";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("reads the old and the new value of a state that an optimizer replaces in place"),
              std::string::npos)
        << error.what();
  }
}

TEST(OwnStep, OnlyF32LossesAreSummed) {
  std::unique_ptr<Sgd> optimizer;
  Own own{[&](State& state) {
            record_pair(state);
            optimizer = std::make_unique<Sgd>(state / "optim", SgdOptions{.lr = 1e-2});
          },
          [](State& state, const Tensor& x) {
            Loss loss = squares(linear(x, parameter(state, "a", x)));
            return Loss{convert(loss.sum, DType::f64), loss.count};
          },
          [&](State&, const Loss&) {}};
  try {
    hash_of(own, compiler::Backend::native, 1);
    FAIL() << "an f64 loss was summed as f32";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("losses and gradients are f32"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep
