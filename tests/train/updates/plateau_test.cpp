// Rates that follow a plateau: PyTorch's rates, the same bits on every mesh, and on from a saved state.
#include "core/optim/plateau.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "compiler/compile/compile.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/optim/adafactor.h"
#include "core/optim/muon.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"

namespace lockstep {
namespace {

using namespace compiler;
using namespace distributed;

Json golden() {
  std::ifstream file(LOCKSTEP_GOLDEN_OPTIMIZERS);
  return Json::parse(file);
}

struct Ran {
  std::vector<double> factors;  // behind each step
  std::map<std::string, std::vector<std::byte>> state;
  std::string hash;
};
enum class Kind { sgd, muon, adafactor };

// Steps whose loss is the metric: the weight is multiplied by 0 where the loss reads it.
Ran run(const PlateauOptions& options, const std::vector<double>& metrics,
        const Mesh& words = {{1}, {"dp_replicate"}}, const Ran* from = nullptr, Kind kind = Kind::sgd) {
  Ran out;
  local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    Parameter weight = state.root().parameter("weight", {4, 3}, init::ones());
    std::unique_ptr<Optimizer> optimizer;
    if (kind == Kind::sgd) optimizer = std::make_unique<Sgd>(state / "optim", SgdOptions{.lr = 0.5});
    if (kind == Kind::muon) optimizer = std::make_unique<Muon>(state / "optim", MuonOptions{.lr = 0.5});
    if (kind == Kind::adafactor)
      optimizer = std::make_unique<Adafactor>(state / "optim", AdafactorOptions{.lr = 0.5});
    Plateau plateau(state / "plateau", options);
    optimizer->follow(plateau);
    Step step = compile(state, {{"metric", DType::f32, {1}}, {"x", DType::f32, {1, 4, 3}}}, {6, 1, 0},
                        [&](const std::vector<Tensor>& batch) {
                          const Tensor slope = sum(reshape(batch[1], {4, 3}) * weight(batch[0]), {0, 1});
                          Loss loss{sum(batch[0], {0}) + slope - stop_gradient(slope),
                                    full(batch[0], {}, 1, DType::i64)};
                          optimizer->update(grad(loss, state.parameters()));
                          plateau.observe(loss);
                          return loss;
                        },
                        {});
    state.materialize();
    if (from)
      for (Array* array : state.arrays()) {
        std::memcpy(array->data.as<std::byte>(), from->state.at(array->fqn).data(),
                    from->state.at(array->fqn).size());
        array->host_wrote();
        array->updates = static_cast<int64_t>(from->factors.size());
      }
    const size_t before = from ? from->factors.size() : 0;
    if (from && mesh.rank == 0) out.factors = from->factors;
    for (size_t t = before; t < metrics.size(); ++t) {
      step.run({static_cast<int64_t>(t) + 1, [&](int64_t, int64_t count, const std::vector<void*>& fields) {
                  for (int64_t n = 0; n < count; ++n) {
                    static_cast<float*>(fields[0])[n] = static_cast<float>(metrics[t]);
                    for (int64_t i = 0; i < 12; ++i)
                      static_cast<float*>(fields[1])[n * 12 + i] = static_cast<float>((i * 7 + 3) % 5) - 2;
                  }
                }});
      if (mesh.rank == 0) out.factors.push_back(state.array("plateau.factor").data.as<float>()[0]);
    }
    std::string mine = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank != 0) return;
    out.hash = mine;
    for (Array* array : state.arrays()) {
      const auto* bytes = array->data.as<std::byte>();
      out.state[array->fqn] = {bytes, bytes + array->local_numel() * static_cast<int64_t>(sizeof(float))};
    }
  });
  return out;
}

const PlateauOptions kMin{.factor = 0.5, .patience = 1, .threshold = 1e-2};
const PlateauOptions kMax{.factor = 0.1,
                          .patience = 2,
                          .threshold = 0.05,
                          .absolute = true,
                          .maximize = true,
                          .cooldown = 2,
                          .least = 0.05};

TEST(Plateau, RatesArePyTorchs) {
  const Json numbers = golden();
  const auto metrics = numbers["metrics"].get<std::vector<double>>();
  for (const auto& [name, options] : {std::pair{"min", kMin}, std::pair{"max", kMax}}) {
    const auto wanted = numbers["plateau"][name].get<std::vector<double>>();
    const Ran found = run(options, metrics);
    ASSERT_EQ(found.factors.size(), wanted.size());
    EXPECT_LT(wanted.back(), 1);
    for (size_t t = 0; t < wanted.size(); ++t)
      EXPECT_NEAR(found.factors[t], wanted[t], 1e-6) << name << " " << t;
  }
}

TEST(Plateau, LooksAtMeansOfSeveralUpdates) {
  PlateauOptions options = kMin;
  options.every = 2, options.patience = 0;
  const Ran found = run(options, {1, 3, 3, 2, 2, 1, 5, 0});  // means 2, 2.5, 1.5, 2.5
  EXPECT_EQ(found.factors, (std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25}));
}

// The host computes of numbers between steps what the step computes of losses.
TEST(Plateau, NumbersBetweenStepsAreLookedAtAsLossesAre) {
  auto metrics = golden()["metrics"].get<std::vector<double>>();
  for (double& metric : metrics) metric = std::round(metric * 64) / 64;  // the mean over six is exact
  for (PlateauOptions options : {kMin, kMax})
    for (int64_t every : {1, 2}) {
      options.every = every;
      const Ran steps = run(options, metrics);
      for (const Mesh& words : {Mesh{{1}, {"dp_replicate"}}, Mesh{{3}, {"dp_shard"}}})
        local_mesh(static_cast<int>(words.size()), words, [&](LiveMesh& mesh) {
          State state(mesh, 3);
          state.root().parameter("weight", {4, 3}, init::ones());
          Plateau plateau(state / "plateau", options);
          state.materialize();
          std::vector<double> factors;
          for (const double metric : metrics) {
            plateau.observe(metric);
            if (const auto factor = plateau.factor()) factors.push_back(*factor);
          }
          if (mesh.rank == 0 || !factors.empty()) { EXPECT_EQ(factors, steps.factors); }
          for (const char* name : {"factor", "best", "waited", "rest", "sum", "seen"}) {
            const std::string fqn = str("plateau.", name);
            if (mesh.rank == 0) {
              EXPECT_EQ(std::memcmp(state.array(fqn).data.as<std::byte>(), steps.state.at(fqn).data(), 4), 0)
                  << name;
            }
          }
        });
    }
}
TEST(Plateau, ANumberThatIsNoneIsNoImprovement) {
  State state(solo_mesh(), 3);
  state.root().parameter("weight", {1}, init::ones());
  Plateau plateau(state / "plateau", {.factor = 0.5, .patience = 0});
  state.materialize();
  for (const double number : {1.0, std::nan(""), 0.5}) plateau.observe(number);
  EXPECT_EQ(plateau.factor(), 0.5);
  EXPECT_EQ(state.array("plateau.best").data.as<float>()[0], 0.5f);
}

TEST(Plateau, OneSetOfBitsOnEveryMeshAndFromASavedState) {
  const auto metrics = golden()["metrics"].get<std::vector<double>>();
  for (Kind kind : {Kind::sgd, Kind::muon, Kind::adafactor}) {
    const Mesh one{{1}, {"dp_replicate"}};
    const std::string alone = run(kMin, metrics, one, nullptr, kind).hash;
    for (const Mesh& mesh :
         {Mesh{{2}, {"dp_replicate"}}, Mesh{{3}, {"dp_shard"}}, Mesh{{2, 2}, {"dp_replicate", "dp_shard"}}})
      EXPECT_EQ(run(kMin, metrics, mesh, nullptr, kind).hash, alone) << text(mesh);
    const Ran half = run(kMin, {metrics.begin(), metrics.begin() + 7}, one, nullptr, kind);
    EXPECT_NE(half.hash, alone);
    EXPECT_EQ(run(kMin, metrics, one, &half, kind).hash, alone);
  }
}

void refused(const std::function<void()>& what, const std::string& words) {
  try {
    what();
    ADD_FAILURE() << "not refused: " << words;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}
TEST(Plateau, WhatIsWrongIsRefused) {
  refused([] { run({.every = 0}, {}); }, "every is 0; it must be at least 1");
  refused([] { run({.factor = 1}, {}); }, "factor is 1; it must be above 0 and less than 1");
  refused([] { run({.least = 2}, {}); }, "least is 2; it must be between 0 and 1");
  State state(LiveMesh{}, 3);
  Plateau plateau(state / "plateau");
  auto builder = std::make_shared<Builder>();
  const Tensor x(builder, builder->graph.add_input(InputKind::batch, "x", DType::f32, {2}));
  refused([&] { plateau.observe(x); }, "is given f32[2]; it looks at one number, f32[]");
  refused(
      [&] { plateau.observe(0.5); },
      "[plateau] observe(0.5) comes before the state has values; it is for numbers between steps, and within "
      "a step observe takes a Loss or a Tensor");
  refused([&] { plateau.factor(); }, "[plateau] plateau.factor is asked for before the state has values");
  struct Own : Optimizer {
    explicit Own(State& state) : Optimizer(state / "own", {}) {}
    void update(const Gradients&, Here) override {}
    std::map<std::string, double> scalars(int64_t) const override { return {}; }
  } own(state);
  refused([&] { own.follow(plateau); }, "this optimizer follows no plateau");
}

}  // namespace
}  // namespace lockstep
