// Sums of losses whose counts differ: values and gradients by the written formula, the same bits on any
// number of ranks, with any micro-batch the same result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/compile/compile.h"
#include "compiler/compile/first_nonfinite.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/nn/metric.h"
#include "core/ops/count_metric.h"
#include "core/optim/plateau.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"
#include "tests/support/model_run.h"

namespace lockstep {
namespace {

constexpr int64_t kSamples = 8, kIn = 4, kClasses = 6;

// Sample i: four numbers, a class, and whether the second loss counts it: 3 of the 8 do.
float x_of(int64_t i, int64_t k) { return philox::uniform(philox::bits(5, 1, 0, i * kIn + k)) - 0.5f; }
int32_t y_of(int64_t i) { return static_cast<int32_t>((5 * i + 1) % kClasses); }
float m_of(int64_t i) { return i < 3 ? 1.0f : 0.0f; }

struct How {
  std::string name = {};
  Mesh mesh{{1}, {"dp_replicate"}};
  int zero = 3;
  int64_t micro = 2, together = 1;
  DType compute = DType::f32;
  bool invariant = true;
  compiler::Backend backend = compiler::Backend::native;
  int64_t lanes = 0;
};
struct Ran {
  std::string hash;
  std::map<std::string, double> metrics;
  std::vector<float> before, after;  // w, on one rank
  float s = 0;
};
// w [6, 4], s [1], of which `loss_of` makes a loss; one step at rate 1.
using LossOf = std::function<Loss(const Tensor& logits, const Tensor& y, const Tensor& m, const Tensor& w,
                                  const Tensor& s)>;
Ran run(const LossOf& loss_of, const How& how) {
  Ran out;
  distributed::local_mesh(static_cast<int>(how.mesh.size()), how.mesh, [&](LiveMesh& mesh) {
    State state(mesh, 3);
    state.zero(how.zero);
    state.compute_dtype(how.compute);
    const Parameter w = state.root().parameter("w", {kClasses, kIn}, init::normal(0.5));
    const Parameter s = state.root().parameter("s", {1}, init::constant(0.25));
    Sgd sgd(state / "optim", {.lr = 1, .clip = 0});
    compiler::CompileOptions options;
    options.backend = how.backend, options.invariant = how.invariant, options.together = how.together;
    compiler::Step step = compile(
        state,
        {{"x", DType::f32, {how.micro, kIn}}, {"y", DType::i32, {how.micro}}, {"m", DType::f32, {how.micro}}},
        {kSamples, how.micro, kSamples / how.micro % std::max<int64_t>(how.lanes, 1) ? 0 : how.lanes},
        [&](const std::vector<Tensor>& batch) {
          const Tensor weight = w.computed(batch[0]), logits = linear(batch[0], weight);
          const Loss loss = loss_of(logits, batch[1], batch[2], w(batch[0]), s(batch[0]));
          sgd.update(grad(loss, state.parameters()));
          metric("again", loss);
          return loss;
        },
        options);
    state.materialize();
    auto weights = [&](const char* name) {
      const Array& array = state.array(name);
      return std::vector<float>(array.data.as<float>(), array.data.as<float>() + array.local_numel());
    };
    std::vector<float> before;
    if (mesh.words.size() == 1) before = weights("w");
    const auto result = step.run({1, [](int64_t first, int64_t count, const std::vector<void*>& to) {
                                    for (int64_t i = 0; i < count; ++i) {
                                      for (int64_t k = 0; k < kIn; ++k)
                                        static_cast<float*>(to[0])[i * kIn + k] = x_of(first + i, k);
                                      static_cast<int32_t*>(to[1])[i] = y_of(first + i);
                                      static_cast<float*>(to[2])[i] = m_of(first + i);
                                    }
                                  }});
    const std::string hash = state_hash(std::as_const(state).arrays(), mesh);
    if (mesh.rank != 0) return;
    out.hash = hash, out.metrics = {result.metrics.begin(), result.metrics.end()};
    if (mesh.words.size() == 1) out.before = before, out.after = weights("w"), out.s = weights("s")[0];
  });
  return out;
}

Loss two_counts(const Tensor& logits, const Tensor& y, const Tensor& m, const Tensor&, const Tensor&) {
  const Loss classes = cross_entropy(logits, y);
  const Loss some = mean_loss(square(select(convert(logits, DType::f32), 1, 0)), m);
  return classes + 0.5 * some;
}
// The value of a cross_entropy + b mean(z0^2 over the masked) + l sum(w^2), and its gradient.
struct Formula {
  double value = 0, entropy = 0;
  std::vector<double> gradient = std::vector<double>(kClasses * kIn);
};
Formula formula(const std::vector<float>& w, double a, double b, double l = 0) {
  Formula out;
  const double counted = 3;
  for (int64_t i = 0; i < kSamples; ++i) {
    std::vector<double> z(kClasses), d(kClasses);
    double all = 0;
    for (int64_t c = 0; c < kClasses; ++c) {
      for (int64_t k = 0; k < kIn; ++k) z[c] += static_cast<double>(w[c * kIn + k]) * x_of(i, k);
      all += std::exp(z[c]);
    }
    out.entropy += (std::log(all) - z[y_of(i)]) / kSamples;
    out.value += b * m_of(i) * z[0] * z[0] / counted;
    for (int64_t c = 0; c < kClasses; ++c) d[c] = a * (std::exp(z[c]) / all - (c == y_of(i))) / kSamples;
    d[0] += b * 2 * z[0] * m_of(i) / counted;
    for (int64_t c = 0; c < kClasses; ++c)
      for (int64_t k = 0; k < kIn; ++k) out.gradient[c * kIn + k] += d[c] * x_of(i, k);
  }
  out.value += a * out.entropy;
  for (int64_t e = 0; e < kClasses * kIn; ++e) {
    out.value += l * w[e] * w[e];
    out.gradient[e] += 2 * l * w[e];
  }
  return out;
}
void expect_formula(const Ran& ran, const Formula& want) {
  EXPECT_NEAR(ran.metrics.at("loss"), want.value, 1e-6);
  EXPECT_NEAR(ran.metrics.at("again"), want.value, 1e-6);
  for (size_t e = 0; e < want.gradient.size(); ++e)
    EXPECT_NEAR(ran.before[e] - ran.after[e], want.gradient[e], 1e-6) << e;
}

std::vector<How> arrangements() {
  return {{"eager", {{1}, {"dp_replicate"}}, 3, 2, 1, DType::f32, true, compiler::Backend::eager},
          {"together", {{1}, {"dp_replicate"}}, 3, 2, 2},
          {"ddp 2", {{2}, {"dp_replicate"}}},
          {"ddp 3", {{3}, {"dp_replicate"}}},
          {"ddp 4", {{4}, {"dp_replicate"}}},
          {"zero 1", {{2}, {"dp_shard"}}, 1},
          {"zero 2", {{3}, {"dp_shard"}}, 2},
          {"zero 3", {{2}, {"dp_shard"}}},
          {"hsdp", {{2, 2}, {"dp_replicate", "dp_shard"}}}};
}
void expect_one_result(const LossOf& loss_of, const std::vector<int64_t>& micros,
                       DType compute = DType::f32) {
  for (const int64_t micro : micros) {
    const Ran alone = run(loss_of, {.name = "one rank", .micro = micro, .compute = compute});
    for (How how : arrangements()) {
      how.micro = micro, how.compute = compute;
      SCOPED_TRACE(str(how.name, ", micro-batches of ", micro));
      const Ran other = run(loss_of, how);
      EXPECT_EQ(other.hash, alone.hash);
      EXPECT_EQ(other.metrics, alone.metrics);
    }
  }
}

TEST(LossSums, EachTermIsDividedByItsOwnCount) {
  for (const int64_t micro : {1, 2, 4, 8}) {
    SCOPED_TRACE(micro);
    const Ran ran = run(two_counts, {.micro = micro});
    expect_formula(ran, formula(ran.before, 1, 0.5));
    EXPECT_EQ(ran.metrics.at("tokens"), 8);  // the first one's
  }
  const Ran judged = run(two_counts, {.backend = compiler::Backend::reference});
  expect_formula(judged, formula(judged.before, 1, 0.5));
}
TEST(LossSums, OneSetOfBitsOnEveryMesh) { expect_one_result(two_counts, {1, 2, 4}); }

TEST(LossSums, AreWrittenAsFormulas) {
  const auto parts = [](const Tensor& logits, const Tensor& y, const Tensor& m) {
    return std::pair{cross_entropy(logits, y), mean_loss(square(select(logits, 1, 0)), m)};
  };
  const std::pair<LossOf, std::array<double, 2>> cases[] = {
      {[&](auto& z, auto& y, auto& m, auto&, auto&) {
         auto [a, b] = parts(z, y, m);
         return a - b + 10 * b;
       },
       {1, 9}},
      {[&](auto& z, auto& y, auto& m, auto&, auto&) {
         auto [a, b] = parts(z, y, m);
         return -(a * 2 - b) / 4;
       },
       {-0.5, 0.25}},
      {[&](auto& z, auto& y, auto& m, auto&, auto&) {
         auto [a, b] = parts(z, y, m);
         Loss all = 0 + a;
         for (int i = 0; i < 3; ++i) all += b;
         all -= 2 * a;
         return all;
       },
       {-1, 3}},
  };
  for (const auto& [loss_of, weights] : cases) {
    const Ran ran = run(loss_of, {});
    expect_formula(ran, formula(ran.before, weights[0], weights[1]));
  }
}

// Of one term nothing is another node: the bits are those of the loss alone.
TEST(LossSums, ASumOfOneIsTheLossItself) {
  const LossOf plain = [](auto& z, auto& y, auto&, auto&, auto&) { return cross_entropy(z, y); };
  const LossOf summed = [](auto& z, auto& y, auto&, auto&, auto&) { return 0 + cross_entropy(z, y); };
  EXPECT_EQ(run(plain, {}).hash, run(summed, {}).hash);
}

// A weight that the state has, as in Kendall et al., arXiv 1705.07115, and a term of weights alone.
TEST(LossSums, WeightsAndTermsOfTheState) {
  const LossOf loss_of = [](auto& z, auto& y, auto&, const Tensor& w, const Tensor& s) {
    return exp(-s) * cross_entropy(z, y) + s + 0.01 * sum(w * w);
  };
  for (const int64_t micro : {1, 2, 8}) {
    const Ran ran = run(loss_of, {.micro = micro});
    const Formula want = formula(ran.before, std::exp(-0.25), 0, 0.01);
    EXPECT_NEAR(ran.metrics.at("loss"), want.value + 0.25, 1e-6);
    for (size_t e = 0; e < want.gradient.size(); ++e)
      EXPECT_NEAR(ran.before[e] - ran.after[e], want.gradient[e], 1e-6);
    EXPECT_NEAR(0.25 - ran.s, 1 - std::exp(-0.25) * want.entropy, 1e-6);
  }
  expect_one_result(loss_of, {2});
}
// A weight of counts, which are known before the micro-batches are computed: a mean over all that both count.
TEST(LossSums, AWeightOfCounts) {
  const LossOf loss_of = [](auto& z, auto& y, auto& m, auto&, auto&) {
    const Loss a = cross_entropy(z, y), b = mean_loss(square(select(z, 1, 0)), m);
    const Tensor of_a = convert(sum_counts(a.count), DType::f32),
                 of_b = convert(sum_counts(b.count), DType::f32);
    return a * (of_a / (of_a + of_b)) + b * (of_b / (of_a + of_b));
  };
  const Ran ran = run(loss_of, {});
  expect_formula(ran, formula(ran.before, 8.0 / 11, 3.0 / 11));
  expect_one_result(loss_of, {2});
}

// What is added to a loss is added once: to the bit the same in any number of micro-batches, with its
// gradient.
TEST(LossSums, ConstantsAreAddedOnce) {
  const LossOf loss_of = [](auto& z, auto& y, auto&, auto&, const Tensor& s) {
    return 0.0 * cross_entropy(z, y) + 0.1 + exp(s) * 0.3;
  };
  const Ran whole = run(loss_of, {.micro = 8});
  EXPECT_EQ(whole.metrics.at("loss"), 0.1f + std::exp(0.25f) * 0.3f);
  for (const int64_t micro : {1, 2, 4})
    for (const int64_t lanes : {1, 2})
      for (const Mesh& mesh : {Mesh{{1}, {"dp_replicate"}}, Mesh{{2}, {"dp_shard"}}}) {
        const Ran ran = run(loss_of, {.mesh = mesh, .micro = micro, .lanes = lanes});
        EXPECT_EQ(ran.metrics.at("loss"), whole.metrics.at("loss")) << micro << " in " << lanes;
        if (mesh.size() == 1) { EXPECT_EQ(ran.s, whole.s) << micro << " in " << lanes; }
      }
}

// Each term has its own count, which is told where it is 0; the metrics have the first one's.
TEST(LossSums, TheTermThatCountsNothingIsNamed) {
  State state(solo_mesh(), 3);
  const Parameter w = state.root().parameter("w", {kClasses, kIn}, init::normal(0.5));
  Sgd sgd(state / "optim", {.lr = 1, .clip = 0});
  compiler::Step step = compiler::compile(
      state, {{"x", DType::f32, {2, kIn}}, {"y", DType::i32, {2}}, {"m", DType::f32, {2}}}, {4, 2, 0},
      [&](const std::vector<Tensor>& batch) {
        const Tensor logits = linear(batch[0], w(batch[0]));
        const Loss loss =
            cross_entropy(logits, batch[1]) + mean_loss(square(select(logits, 1, 0)), batch[2]) + 2;
        sgd.update(grad(loss, state.parameters()));
        return loss;
      },
      {});
  state.materialize();
  bool labels = true;
  const compiler::StepInput input{1, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                                    for (int64_t i = 0; i < count; ++i) {
                                      for (int64_t k = 0; k < kIn; ++k)
                                        static_cast<float*>(to[0])[i * kIn + k] = x_of(first + i, k);
                                      static_cast<int32_t*>(to[1])[i] =
                                          labels ? y_of(first + i) : kIgnoreIndex;
                                      static_cast<float*>(to[2])[i] = 0;
                                    }
                                  }};
  EXPECT_TRUE(step.counted().empty());
  const auto result = step.run(input);
  EXPECT_FALSE(result.applied);
  EXPECT_EQ(step.counted(), (std::vector<double>{4, 0, 1}));
  EXPECT_EQ(result.metrics.at("tokens"), 4);
  for (const auto& [name, value] : result.metrics) EXPECT_FALSE(is_later_count(name)) << name;
  const auto first = first_nonfinite(step, input, state);
  EXPECT_TRUE(first.in_data);
  EXPECT_TRUE(first.words.starts_with("no label of the step counts: term 2 of the loss (loss_sums_test.cpp:"))
      << first.words;
  EXPECT_TRUE(
      first.words.ends_with(") is divided by a count of 0, as where every label is ignored (-100), or "
                            "masked; a term that may count "
                            "nothing is a mean over all places, times their number over maximum(count, 1)"))
      << first.words;
  labels = false;
  step.run(input);
  EXPECT_NE(first_nonfinite(step, input, state).words.find("term 1 of the loss"), std::string::npos);
}
// PyTorch's .sum() / count.clamp(min=1): a mean over all places, times their number over the count of the
// step, which is known before.
TEST(LossSums, ATermThatMayCountNothing) {
  const auto boxes = [](double least) -> LossOf {
    return [least](const Tensor& z, const Tensor& y, const Tensor& m, const Tensor&, const Tensor&) {
      const Tensor marked = convert(m > least, DType::f32);
      const Loss all = mean_loss(square(select(convert(z, DType::f32), 1, 0)) * marked);
      const Tensor places = sum_counts(all.count), found = sum_counts(sum(convert(marked, DType::i64)));
      const Tensor some = maximum(found, full_like(found, 1));
      return cross_entropy(z, y) + 0.5 * (all * (convert(places, DType::f32) / convert(some, DType::f32)));
    };
  };
  const LossOf three = boxes(0), none = boxes(2);
  const Ran alone = run(three, {}), nothing = run(none, {});
  EXPECT_NEAR(alone.metrics.at("loss"), formula(alone.before, 1, 0.5).value, 1e-6);
  EXPECT_NEAR(nothing.metrics.at("loss"), formula(nothing.before, 1, 0).value, 1e-6);
  for (const auto& [of, as] : {std::pair(&three, &alone), std::pair(&none, &nothing)}) {
    for (const int ranks : {2, 3, 4}) {
      const Ran split = run(*of, {.mesh = {{ranks}, {"dp_shard"}}});
      EXPECT_EQ(split.hash, as->hash) << ranks;
      EXPECT_EQ(split.metrics.at("loss"), as->metrics.at("loss")) << ranks;
    }
    const Ran whole = run(*of, {.micro = 8});
    EXPECT_NEAR(whole.metrics.at("loss"), as->metrics.at("loss"), 1e-6);
    for (size_t i = 0; i < whole.after.size(); ++i) EXPECT_NEAR(whole.after[i], as->after[i], 1e-6);
  }
}
TEST(LossSums, MetricsOfCountsAreTheStepsOwn) {
  try {
    compiler::trace({{"x", DType::f32, {2, kIn}}}, [](const std::vector<Tensor>& batch) {
      metric("tokens.2", sum_lanes(sum(batch[0])));
      return mean_loss(batch[0]);
    });
    ADD_FAILURE() << "no UserError";
  } catch (const UserError& error) {
    EXPECT_TRUE(
        std::string_view(error.what()).ends_with(": \"tokens.2\" is the step's own; give yours another name"))
        << error.what();
  }
}

TEST(LossSums, ScaledInF16) {
  expect_one_result(two_counts, {2}, DType::f16);
  const Ran ran = run(two_counts, {.compute = DType::f16});
  EXPECT_NEAR(ran.metrics.at("loss"), formula(ran.before, 1, 0.5).value, 2e-3);
}
TEST(LossSums, InTheLibrarysOwnOrder) {
  const Ran alone = run(two_counts, {}),
            free = run(two_counts, {.mesh = {{2}, {"dp_replicate"}}, .invariant = false});
  EXPECT_NEAR(free.metrics.at("loss"), alone.metrics.at("loss"), 1e-6);
}

// Gradients of values inside the step are of the same formula.
TEST(LossSums, GradientsOfAMicroBatch) {
  const LossOf loss_of = [](const Tensor& z, const Tensor& y, const Tensor& m, const Tensor& w,
                            const Tensor& s) {
    const Tensor slope = grad(two_counts(z, y, m, w, s), {z})[0];  // over all samples, by both counts
    return Loss{sum(square(slope)), full(z, {}, 1, DType::i64)} * 8;
  };
  const Ran four = run(loss_of, {.micro = 2}), one = run(loss_of, {.micro = 8});
  EXPECT_NEAR(four.metrics.at("loss") * 4, one.metrics.at("loss"), 1e-6);  // their counts are 4 and 1
  EXPECT_GT(one.metrics.at("loss"), 0.01);
}

// A whole model, over tensor parallelism and in evaluation.
TEST(LossSums, OfAModelOnTp) {
  tests::ModelRun of{.kind = "gpt",
                     .options = {{"vocab", 17}, {"context", 8}, {"width", 16}, {"depth", 1}, {"heads", 2}}};
  of.fields = {{"targets", DType::i32, {8}}};
  of.objectives = [](const models::Model& model, const tasks::Batch& batch) {
    const Tensor logits = model.forward({batch["ids"]})[0], targets = batch["targets"];
    const Loss large = mean_loss(mean(square(convert(logits, DType::f32)), {-1}), targets > 8);
    return std::vector<tasks::Objective>{{cross_entropy(logits, targets) + 0.1 * large}};
  };
  for (const bool evaluation : {false, true}) {
    of.evaluation = evaluation;
    of.mesh = {{1}, {"dp_replicate"}};
    const auto alone = tests::train_model(of);
    of.mesh = {{2}, {"dp_shard"}};
    EXPECT_EQ(tests::train_model(of).losses, alone.losses);
    of.mesh = {{2}, {"tp"}};
    EXPECT_NEAR(std::stod(tests::train_model(of).losses.back()), std::stod(alone.losses.back()), 1e-4);
  }
}

}  // namespace
}  // namespace lockstep
