// Gradients inside a step: WGAN-GP with its gradient penalty, functions with gradients of their own, and what
// is refused. The same bits on every mesh.
#include <gtest/gtest.h>

#include "compiler/autodiff/autodiff.h"
#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/optim/adamw.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

struct Arrangement {
  std::string name;
  Mesh mesh{{1}, {"dp_replicate"}};
  compiler::Backend backend = compiler::Backend::native;
};
const std::vector<Arrangement>& arrangements() {
  static const std::vector<Arrangement> all{
      {"eager", {{1}, {"dp_replicate"}}, compiler::Backend::eager},
      {"ddp 2", {{2}, {"dp_replicate"}}},
      {"ddp 3", {{3}, {"dp_replicate"}}},
      {"fsdp 2", {{2}, {"dp_shard"}}},
      {"hsdp", {{2, 2}, {"dp_replicate", "dp_shard"}}},
  };
  return all;
}

struct Result {
  std::string hash;
  std::vector<double> losses;
};
using Make = std::function<compiler::StepFunction(State& state)>;
void fill(int64_t step, int64_t first, int64_t count, const std::vector<void*>& fields,
          const std::vector<int64_t>& widths) {
  for (size_t f = 0; f < widths.size(); ++f)
    for (int64_t e = 0; e < count * widths[f]; ++e)
      static_cast<float*>(fields[f])[e] = philox::uniform(
          philox::bits(5, f, static_cast<uint64_t>(step), static_cast<uint64_t>(first * widths[f] + e)));
}
Result train(const Make& make, const std::vector<std::pair<std::string, int64_t>>& fields,
             const Arrangement& how, int64_t steps) {
  Result out;
  distributed::local_mesh(static_cast<int>(how.mesh.size()), how.mesh, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    compiler::StepFunction function = make(state);
    compiler::CompileOptions options;
    options.backend = how.backend;
    std::vector<compiler::BatchField> batch;
    std::vector<int64_t> widths;
    for (const auto& [name, width] : fields)
      batch.push_back({name, DType::f32, {2, width}}), widths.push_back(width);
    compiler::Step step = compile(state, batch, {24, 2, 0}, function, options);
    state.materialize();
    std::vector<double> losses;
    for (int64_t i = 1; i <= steps; ++i)
      losses.push_back(
          step.run({i, [&](int64_t first, int64_t count,
                           const std::vector<void*>& into) { fill(i, first, count, into, widths); }})
              .metrics.at("loss"));
    std::string hash = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank == 0) out = {hash, losses};
  });
  return out;
}
void expect_one_result(const Make& make, const std::vector<std::pair<std::string, int64_t>>& fields,
                       int64_t steps) {
  const Result alone = train(make, fields, {"one rank"}, steps);
  for (const Arrangement& how : arrangements()) {
    SCOPED_TRACE(how.name);
    const Result other = train(make, fields, how, steps);
    EXPECT_EQ(other.hash, alone.hash);
    EXPECT_EQ(other.losses, alone.losses);
  }
}

// Gulrajani et al., arXiv 1704.00028: the critic's gradient at points between real and made samples has
// norm 1.
struct Wgan {
  Linear made_by, made_of, first, last;
  LayerNorm norm;
  Sgd of_critic, of_generator;
  explicit Wgan(State& state)
      : made_by(state / "generator" / "first", 4, 8),
        made_of(state / "generator" / "last", 8, 6),
        first(state / "critic" / "first", 6, 16),
        last(state / "critic" / "last", 16, 1),
        norm(state / "critic" / "norm", 16),
        of_critic(state / "optim" / "critic", {.lr = 0.005, .clip = 0}),
        of_generator(state / "optim" / "generator", {.lr = 0.002, .clip = 0}) {}
  Tensor generate(Tensor z) const { return made_of(gelu(made_by(z))); }
  Tensor judge(Tensor x) const { return last(norm(gelu(first(x)))); }
};

Make wgan(double weight) {
  return [=](State& state) -> compiler::StepFunction {
    auto model = std::make_shared<Wgan>(state);
    return [=, &state](const std::vector<Tensor>& batch) {
      Tensor real = batch[0] * 2.0, at = broadcast_to(batch[2], real.shape());
      Tensor made = model->generate(batch[1]), held = stop_gradient(made);
      Tensor between = real * at + held * (1.0 - at);
      Tensor slope = grad(model->judge(between), {between})[0];
      Tensor excess = sqrt(sum(slope * slope, {1}) + 1e-12) - 1.0;
      Tensor count = full(real, {}, 2, DType::i64);
      Loss critic{sum(model->judge(held)) - sum(model->judge(real)) + sum(excess * excess) * weight, count};
      Loss generator{0.0 - sum(model->judge(made)), count};
      metric("excess", sum_lanes(sum(excess * excess)) / 24.0);
      auto of = [&](const std::string& part) {
        std::vector<Parameter> out;
        for (const Parameter& p : state.parameters())
          if (p.fqn().starts_with(part)) out.push_back(p);
        return out;
      };
      model->of_critic.update(grad(critic, of("critic")));
      model->of_generator.update(grad(generator, of("generator")));
      return critic;
    };
  };
}
const std::vector<std::pair<std::string, int64_t>> kSamples{{"real", 6}, {"noise", 4}, {"at", 1}};

TEST(GradientsInStep, WganWithGradientPenaltyOnEveryMesh) { expect_one_result(wgan(10), kSamples, 4); }

TEST(GradientsInStep, ThePenaltyTeachesTheCritic) {
  const Result with = train(wgan(10), kSamples, {"one rank"}, 60);
  EXPECT_LT(with.losses.back(), 0.5 * with.losses.front());
  EXPECT_NE(with.hash, train(wgan(0), kSamples, {"one rank"}, 60).hash);
}

// The gradient of the loss with respect to an input of the step and to a value inside.
TEST(GradientsInStep, OfAnyTracedTensor) {
  expect_one_result(
      [](State& state) -> compiler::StepFunction {
        Linear layer(state / "layer", 6, 5);
        auto sgd = std::make_shared<Sgd>(state / "optim", SgdOptions{.lr = 0.05, .clip = 0});
        return [=, &state](const std::vector<Tensor>& batch) {
          Tensor inner = tanh(layer(batch[0]));
          Loss first = mean_loss(inner * inner);
          auto slopes = grad(first, {batch[0], inner, layer.weight(batch[0])});
          EXPECT_EQ(slopes[0].text(), batch[0].text());
          EXPECT_EQ(slopes[2].text(), "f32[5,6]");
          Loss loss{first.sum + sum(slopes[0] * slopes[0]) + sum(exp(slopes[1])) + sum(slopes[2]),
                    first.count};
          sgd->update(grad(loss, state.parameters()));
          return loss;
        };
      },
      {{"x", 6}}, 3);
}

// Values of f32 that a graph's inputs and nodes have; no gradient in it.
struct Traced {
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  Tensor x{builder, builder->graph.add_input(InputKind::batch, "x", DType::f32, {2, 3})},
      ids{builder, builder->graph.add_input(InputKind::batch, "ids", DType::i32, {2, 3})};
  Graph differentiated(const Tensor& out) {
    builder->graph.add_output(OutputKind::value, "out", out.id());
    return compiler::differentiate(builder->graph, {});
  }
  static int64_t count(const Graph& graph, OpId op) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op == op; });
  }
};

TEST(GradientsInStep, NothingIsLeftOfTheirNodes) {
  Traced t;
  auto twice = custom_gradient([](const std::vector<Tensor>& in) { return Computed{{in[0] * 2.0}}; },
                               [](const std::vector<Tensor>&, const std::vector<Tensor>& dy) {
                                 return std::vector<Tensor>{tanh(dy[0])};
                               });
  Tensor y = twice({t.x})[0];
  const Graph graph = t.differentiated(grad(sin(y), {t.x})[0] + y);
  EXPECT_EQ(t.count(graph, ops::custom_gradient), 0);
  EXPECT_EQ(t.count(graph, ops::vjp), 0);
  EXPECT_EQ(t.count(graph, ops::tanh), 1);  // of the gradient that came; that of the stand-in is gone
  Traced unread;
  EXPECT_EQ(unread.count(unread.differentiated(twice({unread.x})[0]), ops::tanh), 0);
}

// A gradient that is clipped on its way back, inside a model that trains.
TEST(GradientsInStep, AFunctionWithAGradientOfItsOwnTrains) {
  for (bool clipped : {false, true})
    expect_one_result(
        [=](State& state) -> compiler::StepFunction {
          Linear layer(state / "layer", 6, 5);
          auto sgd = std::make_shared<Sgd>(state / "optim", SgdOptions{.lr = 0.05, .clip = 0});
          return [=, &state](const std::vector<Tensor>& batch) {
            auto clip = custom_gradient(
                [](const std::vector<Tensor>& in) { return Computed{{tanh(in[0])}, {in[0]}}; },
                [=](const std::vector<Tensor>& saved, const std::vector<Tensor>& dy) {
                  Tensor y = tanh(saved[0]), dx = dy[0] * (1.0 - y * y);
                  return std::vector<Tensor>{clipped ? clamp(dx, -0.1, 0.1) : dx};
                });
            Loss loss = mean_loss(square(clip({layer(batch[0])})[0]));
            sgd->update(grad(loss, state.parameters()));
            return loss;
          };
        },
        {{"x", 6}}, 3);
}

template <class F>
void refused(const F& call, const std::string& words) {
  Traced t;
  try {
    call(t);
    ADD_FAILURE() << "accepted; expected: " << words;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("gradients_in_step_test.cpp:"), std::string::npos) << e.what();
  }
}
using Tensors = std::vector<Tensor>;
auto given(Tensors gradients) {
  return [=](const Tensors&, const Tensors&) { return gradients; };
}
Computed same(const Tensors& in) { return {{in[0] * 1.0}}; }

TEST(GradientsInStep, WhatHasNoGradientIsRefused) {
  refused([](Traced& t) { grad(t.ids, {t.x}); }, "y is i32[2,3]: integers have no gradient");
  refused([](Traced& t) { grad(t.x, {t.x, t.ids}); }, "input 1 is i32[2,3]: only floats have a gradient");
  refused([](Traced& t) { grad(t.x, {}); }, "there are no inputs to differentiate with respect to");
  refused([](Traced& t) { grad(t.x, {Tensor()}); }, "input 0 is an empty Tensor");
  refused([](Traced& t) { grad(t.x, {t.x}, sum(t.x)); }, "dy is f32[], y is f32[2,3]; they have one type");
  refused([](Traced& t) { t.differentiated(grad(sum_lanes(t.x * t.x), {t.x})[0]); },
          "[sum_lanes] gradients_in_step_test.cpp:");
  refused(
      [](Traced& t) { t.differentiated(grad(sum_lanes(t.x * t.x), {t.x})[0]); },
      "a sum over micro-batches has no gradient, since it is known after the last of them; differentiate a "
      "value of the micro-batch itself: grad(value, inputs)");
}
TEST(GradientsInStep, GradientsOfOnesOwnAreChecked) {
  refused([](Traced& t) { custom_gradient(same, given({}))({t.x}); }, "gives 0 gradients for 1 inputs");
  refused([](Traced& t) { custom_gradient(same, given({sum(t.x)}))({t.x}); },
          "gives f32[] for input 0, which is f32[2,3]; a gradient has the type of its input");
  refused([](Traced& t) { custom_gradient(same, given({t.x, t.x}))({t.x, t.ids}); },
          "gives a gradient for input 1, which is i32[2,3]; give an empty Tensor for integers");
  refused([](Traced& t) { custom_gradient([](const Tensors&) { return Computed{}; }, given({t.x}))({t.x}); },
          "its forward function gives no outputs");
  refused(
      [](Traced& t) {
        custom_gradient([&](const Tensors&) { return Computed{{t.ids}}; }, given({t.x}))({t.x});
      },
      "output 0 of its forward function is i32[2,3]; outputs are floats");
  refused([](Traced& t) { custom_gradient(same, nullptr)({t.x}); }, "its backward function is empty");
  refused([](Traced&) { custom_gradient(same, given({}))({}); }, "it has no inputs");
}

}  // namespace
}  // namespace lockstep
