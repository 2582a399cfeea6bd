// What is refused of sums of losses and their weights, on its words.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "compiler/trace/trace.h"
#include "core/base/error.h"
#include "core/nn/assign.h"
#include "core/nn/metric.h"
#include "core/nn/state.h"
#include "core/optim/gradients.h"
#include "tests/support/nn_fixture.h"

using namespace lockstep;
using lockstep::testing::Tracing;

namespace {
std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const UserError& e) { return e.what(); }
  ADD_FAILURE() << "no UserError";
  return "";
}
// Of what stands on this line. A function, since within arguments of a macro compilers count lines
// differently.
void expect_at(int line, const std::function<void()>& what, const std::string& words) {
  EXPECT_EQ(refusal(what), str("[loss] loss_errors_test.cpp:", line, ": ", words));
}
}  // namespace

TEST(LossErrors, Weights) {
  Tracing step(2, 3), other(2, 3);
  const Tensor values = convert(step.ids, DType::f32);
  const Loss loss = mean_loss(values);
  const double inf = std::numeric_limits<double>::infinity();
  expect_at(__LINE__, [&] { (void)(inf * loss); }, "the weight of a loss is inf; give it a finite number");
  expect_at(__LINE__, [&] { (void)(loss / 0); }, "the weight of a loss is inf; give it a finite number");
  expect_at(
      __LINE__, [&] { (void)(loss * values); },
      "the weight of a loss is f32[2,3]: weigh samples by mean_loss(values, weights), or "
      "reduce it to one number");
  expect_at(
      __LINE__, [&] { (void)(loss * sum(values)); },
      "the weight of a loss is f32[] and differs from micro-batch to micro-batch: weigh "
      "samples by mean_loss(values, weights)");
  expect_at(
      __LINE__, [&] { (void)(loss / uniform(values, {1})); },
      "the weight of a loss is f32[1] and differs from micro-batch to micro-batch: weigh "
      "samples by mean_loss(values, weights)");
  expect_at(
      __LINE__, [&] { (void)(loss * mean_of_step(loss)); },
      "the weight of a loss is f32[], a sum over the micro-batches that is known after the "
      "last of them, when the gradients are made: take one that follows from weights, "
      "buffers and counts");
  expect_at(
      __LINE__, [&] { (void)(loss + sum(values)); },
      "what is added to a loss is f32[] and differs from micro-batch to micro-batch: make a "
      "loss of it, mean_loss(values) or Loss{sum, count}");
  expect_at(
      __LINE__, [&] { (void)(loss - values); },
      "what is added to a loss is f32[2,3]: make a loss of it, mean_loss(values) or "
      "Loss{sum, count}, or reduce it to one number");
  expect_at(
      __LINE__, [&] { (void)(loss * scalar(other.ids, "rate")); },
      "the weight of a loss belongs to another step");
  expect_at(
      __LINE__, [&] { (void)(loss + mean_loss(convert(other.ids, DType::f32))); },
      "the losses that are added belong to two steps; add those of one");
}

TEST(LossErrors, EmptyOnes) {
  Tracing step(2, 3);
  const Loss loss = mean_loss(convert(step.ids, DType::f32));
  const std::string empty = "the loss has no sum or no count; pass what cross_entropy gives: {sum, count}";
  expect_at(__LINE__, [&] { (void)(loss + Loss{}); }, empty);
  expect_at(__LINE__, [&] { (void)(2 * Loss{}); }, empty);
  // A sum of losses has no sum and no count of its own that could be taken for one.
  const Loss both = loss + loss;
  EXPECT_EQ(both.terms.size(), 2u);
  EXPECT_FALSE(both.sum.defined());
  EXPECT_FALSE(both.count.defined());
  expect_at(__LINE__, [&] { (void)(loss + Loss{loss.sum, both.count}); }, empty);
  const Loss wide{convert(step.ids, DType::f32), loss.count};
  expect_at(
      __LINE__, [&] { (void)(loss + wide); },
      "the loss has sum f32[2,3] and count i64[]; both must be scalars (rank 0)");
  EXPECT_NE(refusal([&] {
              compiler::trace({{"x", DType::f32, {2, 3}}}, [](const std::vector<Tensor>&) { return Loss{}; });
            }).find("the step function returned no loss"),
            std::string::npos);
}

TEST(MetricErrors, NamesOfTheStepAndNone) {
  Tracing step(2, 3);
  const Tensor one = sum(convert(step.ids, DType::f32));
  auto told = [&](const char* name) { return refusal([&] { metric(name, one); }); };
  const std::string line = str("[metric] loss_errors_test.cpp:", __LINE__ - 1, ": ");
  for (const char* own : {"step", "loss", "tokens", "tokens.2", "lr", "step_ms", "samples_per_s", "val_loss",
                          "exposed_dp_shard_ms", "weight_norm.a", "applied", "stop"})
    EXPECT_EQ(told(own), str(line, '"', own, "\" is the step's own; give yours another name"));
  EXPECT_EQ(told(""), line + "\"\" is no name of a metric; give it a word");
  EXPECT_EQ(told("a\nb"), line + "\"a\\nb\" is no name of a metric; give it a word");
  for (const char* yours : {"steps", "exposed_ms_of_mine", "val_net.grad_norm"}) metric(yours, one);
}

// What is written into a step that ended would be lost.
TEST(LossErrors, MetricsOfAStepThatEnded) {
  Tensor kept;
  (void)compiler::trace({{"x", DType::f32, {2, 3}}}, [&](const std::vector<Tensor>& batch) {
    kept = sum_lanes(sum(batch[0]));
    return mean_loss(batch[0]);
  });
  const std::string before = " of a step that was traced before; compute it again in this one";
  EXPECT_NE(refusal([&] { metric("late", kept); }).find("\"late\" is f32[]" + before), std::string::npos);
  State state(solo_mesh(), 1);
  const Parameter mean = state.root().buffer("mean", DType::f32, {}, init::zeros());
  EXPECT_NE(refusal([&] { assign(mean, kept); }).find("\"mean\" is assigned f32[]" + before),
            std::string::npos);
}
