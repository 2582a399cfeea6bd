// State that a step assigns from arithmetic of its own: optimizers, averages, running statistics. The same
// bits on every mesh, native as eager, and what cannot be assigned is refused.
#include <gtest/gtest.h>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/nn/assign.h"
#include "core/optim/adafactor.h"
#include "core/optim/clip.h"
#include "core/optim/muon.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

struct Case {
  std::string name;
  std::function<void(State&)> record;
  std::function<void(State&, const Gradients&, const Tensor& x)> update;
};

struct Arrangement {
  std::string name;
  Mesh mesh{{1}, {"dp_replicate"}};
  int zero = 3;
  compiler::Backend backend = compiler::Backend::native;
  int threads = 1;
};

Tensor all_sum(const Tensor& x) { return sum(x, {0, 1}); }
Loss loss_of(State& state, const Tensor& x) {
  Tensor y = linear(x, state.find_spec("w").computed(x), state.find_spec("bias").computed(x));
  Tensor z = convert(tanh(y), DType::f32);
  return {all_sum(z * z), all_sum(convert(full_like(z, 1), DType::i64))};
}

struct Result {
  std::string hash;
  std::map<std::string, std::vector<float>> state;  // of rank 0
};
Result run(const Case& made, const Arrangement& how, DType compute = DType::f32) {
  Result out;
  distributed::local_mesh(static_cast<int>(how.mesh.size()), how.mesh, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    state.zero(how.zero);
    state.compute_dtype(compute);
    state.root().parameter("w", {6, 8}, init::normal(0.5));
    state.root().parameter("bias", {6}, init::normal(0.5));
    made.record(state);
    compiler::CompileOptions options;
    options.backend = how.backend;
    options.threads = how.threads;
    if (compute == DType::bf16) options.precision = "bf16";
    compiler::Step step = compile(
        state, {{"x", DType::f32, {2, 8}}}, {12, 2, 0},
        [&](const std::vector<Tensor>& batch) {
          Loss loss = loss_of(state, convert(batch[0], compute));
          made.update(state, grad(loss, state.parameters()), batch[0]);
          return loss;
        },
        options);
    state.materialize();
    for (int64_t i = 1; i <= 4; ++i)
      step.run({i, [&](int64_t first, int64_t count, const std::vector<void*>& fields) {
                  for (int64_t e = 0; e < count * 8; ++e)
                    static_cast<float*>(fields[0])[e] =
                        philox::uniform(philox::bits(5, 6, static_cast<uint64_t>(i),
                                                     static_cast<uint64_t>(first * 8 + e))) -
                        0.5f;
                }});
    std::string mine = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank != 0) return;
    out.hash = mine;
    for (Array* array : state.arrays()) {
      const auto* values = array->data.as<float>();
      out.state[array->fqn] = {values, values + array->local_numel()};
    }
  });
  return out;
}

std::vector<Parameter> with_moments(State& state, const std::string& name) {
  for (const Parameter& p : state.parameters()) (state / "own").moment(p, name);
  return state.parameters();
}
Parameter moment(State& state, const Parameter& p, const std::string& name) {
  return state.find_spec(str("own.", p.fqn(), ".", name));
}
// For each parameter and its gradient.
using Rule = std::function<void(State&, const Parameter&, const Tensor& g)>;
auto each(Rule rule) {
  return [rule](State& state, const Gradients& all, const Tensor&) {
    for (size_t i = 0; i < all.values.size(); ++i) rule(state, all.parameters[i], all.values[i]);
  };
}

Case nesterov() {
  return {"sgd with Nesterov's momentum", [](State& state) { with_moments(state, "m"); },
          each([](State& state, const Parameter& p, const Tensor& g) {
            Tensor m = moment(state, p, "m")(g) * 0.9 + g;
            assign(moment(state, p, "m"), m);
            assign(p, p(g) - (g + m * 0.9) * 0.1);
          })};
}
Case lion() {
  return {"lion", [](State& state) { with_moments(state, "m"); },
          each([](State& state, const Parameter& p, const Tensor& g) {
            Tensor m = moment(state, p, "m")(g), old = p(g);
            assign(p, old - (apply1(ops::sign, {m * 0.9 + g * 0.1}) + old * 0.1) * 0.01);
            assign(moment(state, p, "m"), m * 0.99 + g * 0.01);
          })};
}
Case rmsprop_of_the_norm() {
  return {"rmsprop by a norm of its own", [](State& state) { with_moments(state, "v"); },
          [](State& state, const Gradients& all, const Tensor&) {
            Tensor norm = global_norm(all), rate = 0.1 / (norm + 1.0);
            for (size_t i = 0; i < all.values.size(); ++i) {
              const Parameter& p = all.parameters[i];
              Tensor g = all.values[i], v = moment(state, p, "v")(g) * 0.9 + g * g * 0.1;
              assign(moment(state, p, "v"), v);
              assign(p, p(g) - g / (sqrt(v) + 1e-4) * broadcast_to(rate, g.shape()));
            }
          }};
}
// Ranks are threads: each has an optimizer of its own.
std::unique_ptr<Optimizer>& own_adamw() {
  thread_local std::unique_ptr<Optimizer> mine;
  return mine;
}
// Of new weights, behind an optimizer of the tree and behind one of its own.
Case average_behind(bool adamw) {
  return {adamw ? "average behind adamw" : "average behind an assignment",
          [=](State& state) {
            with_moments(state, "average");
            if (adamw) own_adamw() = std::make_unique<AdamW>(state / "optim", AdamWOptions{.lr = 1e-2});
          },
          [=](State& state, const Gradients& all, const Tensor&) {
            if (adamw) own_adamw()->update(all);
            for (size_t i = 0; i < all.values.size(); ++i) {
              const Parameter& p = all.parameters[i];
              const Tensor& g = all.values[i];
              if (!adamw) assign(p, p(g) - g * 0.1);
              const Parameter average = moment(state, p, "average");
              assign(average, average(g) * 0.75 + assigned(p, g) * 0.25);
            }
          }};
}
// Of old weights, which an optimizer of the tree replaces in the same step.
Case average_before() {
  return {"average of old weights",
          [=](State& state) {
            with_moments(state, "average");
            own_adamw() = std::make_unique<AdamW>(state / "optim", AdamWOptions{.lr = 1e-2});
          },
          [=](State& state, const Gradients& all, const Tensor&) {
            own_adamw()->update(all);
            for (const Parameter& p : all.parameters) {
              const Parameter average = moment(state, p, "average");
              assign(average, average(all.values[0]) * 0.75 + p(all.values[0]) * 0.25);
            }
          }};
}
Case swapped() {
  return {"two states that take each other's place", [](State& state) { with_moments(state, "other"); },
          each([](State& state, const Parameter& p, const Tensor& g) {
            const Parameter other = moment(state, p, "other");
            assign(p, other(g) - g * 0.1);
            assign(other, p(g));
          })};
}
Case running_mean() {
  return {"a running mean of the data",
          [](State& state) { state.root().buffer("mean", DType::f32, {8}, init::zeros()); },
          [](State& state, const Gradients& all, const Tensor& x) {
            const Parameter mean = state.find_spec("mean");
            Tensor total = apply1(ops::sum_lanes, {sum(x, {0})});
            Tensor count = apply1(ops::sum_lanes, {full(x, {}, 2, DType::i64)});
            Tensor now = total / broadcast_to(convert(count, DType::f32), {8});
            assign(mean, mean(x) * 0.9 + now * 0.1);
            for (size_t i = 0; i < all.values.size(); ++i)
              assign(all.parameters[i], all.parameters[i](x) - all.values[i] * 0.1);
          }};
}
// Optimizers that read whole tensors.
Case whole_kind(bool muon) {
  return {muon ? "muon" : "adafactor",
          [=](State& state) {
            if (muon)
              own_adamw() = std::make_unique<Muon>(state / "optim", MuonOptions{.lr = 1e-2});
            else
              own_adamw() = std::make_unique<Adafactor>(state / "optim", AdafactorOptions{.lr = 1e-2});
          },
          [](State&, const Gradients& all, const Tensor&) { own_adamw()->update(all); }};
}
// Arithmetic of its own on whole gradients, then on rows, then on whole values again.
Case whole_twice() {
  return {"products of whole matrices, twice", [](State& state) { with_moments(state, "m"); },
          each([](State& state, const Parameter& p, const Tensor& g) {
            if (p.shape().size() < 2)
              return assign(p, p(g) - g * 0.1), assign(moment(state, p, "m"), g * 0.5);
            Tensor first = matmul(matmul(g * 2.0, transpose(g, 0, 1)), g);
            Tensor second = moment(state, p, "m")(g) + first * g;
            assign(moment(state, p, "m"), second);
            assign(p, p(g) - matmul(matmul(second, transpose(second, 0, 1)), second) * 0.1);
          })};
}
// Of a state that the same step replaces, whole.
Case norm_of_old_weights() {
  return {"rates by norms of old weights and old moments", [](State& state) { with_moments(state, "m"); },
          each([](State& state, const Parameter& p, const Tensor& g) {
            std::vector<int64_t> dims;
            for (int d = 0; d < g.ndim(); ++d) dims.push_back(d);
            const Tensor m = moment(state, p, "m")(g);
            Tensor rate = 1.0 / (sqrt(sum(p(g) * p(g), dims)) + sum(m, dims) + 10.0);
            assign(moment(state, p, "m"), m * 0.9 + g);
            assign(p, p(g) - rate * g);
          })};
}
Case sums_beside_adamw(bool of_new) {
  return {of_new ? "sums of new weights behind adamw" : "sums of old weights before adamw",
          [](State& state) {
            state.root().buffer("sums", DType::f32, {8}, init::zeros());
            own_adamw() = std::make_unique<AdamW>(state / "optim", AdamWOptions{.lr = 1e-2});
          },
          [=](State& state, const Gradients& all, const Tensor& x) {
            own_adamw()->update(all);
            const Parameter sums = state.find_spec("sums"), w = state.find_spec("w");
            assign(sums, sums(x) * 0.5 + sum(of_new ? assigned(w, x) : w(x), {0}));
          }};
}
// By elements, of its own norm: the moment is read before and behind what its new value decides.
Case clipped_by_its_own_norm() {
  return {"an update that its own norm limits", [](State& state) { with_moments(state, "v"); },
          each([](State& state, const Parameter& p, const Tensor& g) {
            std::vector<int64_t> dims;
            for (int d = 0; d < g.ndim(); ++d) dims.push_back(d);
            const Tensor v = moment(state, p, "v")(g) * 0.9 + g * g * 0.1, u = g * rsqrt(v + 1e-4);
            assign(moment(state, p, "v"), v);
            assign(p, p(g) - 0.1 / (1.0 + sqrt(sum(u * u, dims))) * u);
          })};
}
std::vector<Case> cases() {
  return {nesterov(),
          lion(),
          rmsprop_of_the_norm(),
          average_behind(true),
          average_behind(false),
          average_before(),
          swapped(),
          running_mean(),
          whole_kind(true),
          whole_kind(false),
          whole_twice(),
          norm_of_old_weights(),
          sums_beside_adamw(false),
          sums_beside_adamw(true),
          clipped_by_its_own_norm()};
}

TEST(Assign, OneSetOfBitsOnEveryMesh) {
  const std::vector<Arrangement> arrangements{
      {"eager", {{1}, {"dp_replicate"}}, 3, compiler::Backend::eager},
      {"two threads", {{1}, {"dp_replicate"}}, 3, compiler::Backend::native, 2},
      {"ddp 2", {{2}, {"dp_replicate"}}},
      {"ddp 3", {{3}, {"dp_replicate"}}},
      {"zero 1", {{2}, {"dp_shard"}}, 1},
      {"fsdp 2", {{2}, {"dp_shard"}}},
      {"fsdp 3", {{3}, {"dp_shard"}}},
      {"hsdp", {{2, 2}, {"dp_replicate", "dp_shard"}}},
  };
  for (const Case& made : cases())
    for (DType compute : {DType::f32, DType::bf16}) {
      const std::string alone = run(made, {"one rank"}, compute).hash;
      for (const Arrangement& how : arrangements) {
        SCOPED_TRACE(str(made.name, ", ", how.name, ", ", name(compute)));
        EXPECT_EQ(run(made, how, compute).hash, alone);
      }
    }
}

TEST(Assign, TheReferenceBackendAgrees) {
  for (const Case& made : cases()) {
    const auto native = run(made, {"one rank"}).state,
               slow =
                   run(made, {"reference", {{1}, {"dp_replicate"}}, 3, compiler::Backend::reference}).state;
    ASSERT_EQ(native.size(), slow.size());
    for (const auto& [fqn, values] : native)
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], slow.at(fqn)[i], made.name == "lion" ? 0.05 : 5e-5)
            << made.name << " " << fqn << "[" << i << "]";
  }
}

// By hand, in double, with the running mean and Nesterov's rule apart.
TEST(Assign, ARunningMeanIsThatOfTheWholeBatch) {
  std::vector<double> mean(8);
  for (uint64_t step = 1; step <= 4; ++step)
    for (uint64_t c = 0; c < 8; ++c) {
      double total = 0;
      for (uint64_t sample = 0; sample < 12; ++sample)
        total += static_cast<double>(philox::uniform(philox::bits(5, 6, step, sample * 8 + c)) - 0.5f);
      mean[c] = 0.9 * mean[c] + 0.1 * total / 12;
    }
  const auto found = run(running_mean(), {"ddp 2", {{2}, {"dp_replicate"}}}).state.at("mean");
  for (size_t c = 0; c < 8; ++c) EXPECT_NEAR(found[c], mean[c], 1e-6);
}

void refused(const Case& made, const std::string& words) {
  try {
    run(made, {"one rank"});
    ADD_FAILURE() << made.name << " is accepted";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("assign_test.cpp:"), std::string::npos) << e.what();
  }
}
TEST(Assign, WhatCannotBeAssignedIsRefused) {
  auto nothing = [](State&) {};
  refused({"another shape", nothing,
           each([](State&, const Parameter& p, const Tensor& g) { assign(p, sum(g, {0})); })},
          "\"w\" is f32[6,8] and is assigned f32[8]; convert or reshape the value first");
  refused({"twice", nothing,
           each([](State&, const Parameter& p, const Tensor& g) { assign(p, g), assign(p, g); })},
          "\"w\" is assigned twice in one step; compute one value of both");
  refused({"nothing", nothing, each([](State&, const Parameter& p, const Tensor&) { assign(p, {}); })},
          "\"w\" is assigned an empty Tensor");
  refused(
      {"a value of a micro-batch",
       [](State& state) { state.root().buffer("last", DType::f32, {2, 8}, init::zeros()); },
       [](State& state, const Gradients&, const Tensor& x) { assign(state.find_spec("last"), x * 2.0); }},
      "\"last\" is assigned what one micro-batch's samples give, which differs from one micro-batch to the "
      "next, and a step has one value of it: take the sum over all, as in sum_lanes(sum(x, {0})) / number");
  refused({"old and new",
           [=](State& state) {
             with_moments(state, "change");
             own_adamw() = std::make_unique<AdamW>(state / "optim", AdamWOptions{.lr = 1e-2});
           },
           [=](State& state, const Gradients& all, const Tensor& x) {
             own_adamw()->update(all);
             for (const Parameter& p : all.parameters)
               assign(moment(state, p, "change"), assigned(p, x) - p(x));
           }},
          "is computed from the old and the new value of a state that an optimizer replaces in place");
}

}  // namespace
}  // namespace lockstep
