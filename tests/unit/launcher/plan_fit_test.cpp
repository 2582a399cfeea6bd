// What is proposed where a plan does not fit, and what is told of idle ranks.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "launcher/plan/report.h"

namespace lockstep {

using namespace compiler;
using namespace launcher;

namespace {

RunConfig small() {
  return parse_config(
      R"({"name": "small", "model": {"kind": "gpt", "vocab": 32, "context": 8, "width": 16, "depth": 3, "heads": 2},
    "data": {"paths": ["a.txt"], "kind": "tokens"}, "batch": {"global": 24, "micro": 2}, "train": {"device": "cpu"}})",
      "small.json");
}

// A budget of activations changes no bit, so it is nearer than any other batch or number of ranks.
TEST(PlanReport, ABudgetOfActivationsIsTheNearestThatFits) {
  RunConfig config = small();
  config.batch.micro = 8, config.batch.global = 8;
  config.model.options = {{"vocab", 256}, {"width", 64}, {"heads", 4}, {"depth", 4}, {"context", 128}};
  PaperRun run(config, 1, cpu_target());
  const int64_t total = device_needs(config, run.state, run.trainer, run.step, 0, {}).total(),
                arena = run.step.held.arena;
  const auto fit = nearest_config(config, 1, cpu_target(), 0, {}, total - arena / 4);
  ASSERT_TRUE(fit);
  EXPECT_NE(fit->budget, "");
  EXPECT_EQ(fit->micro, 8);
  EXPECT_EQ(fit->ranks, 1);
  EXPECT_LE(fit->bytes, total - arena / 4);
  EXPECT_EQ(text(*fit).rfind("compile.memory_budget " + fit->budget + ", with the same bits (", 0), 0u);
  RunConfig with = config;
  with.compile.memory_budget = fit->budget;
  PaperRun again(with, 1, cpu_target());
  EXPECT_EQ(device_needs(with, again.state, again.trainer, again.step, 0, {}).total(), fit->bytes);
  // Less than all that can be computed again: another batch or more ranks.
  const auto other = nearest_config(config, 1, cpu_target(), 0, {}, total - arena);
  EXPECT_TRUE(!other || other->budget.empty());
  EXPECT_NE(does_not_fit("x", 8, 1, {}, 1, fit)
                .find("; compile.memory_budget " + fit->budget + " fits, with the same bits ("),
            std::string::npos);
}

TEST(PlanReport, IdleRanksStandInALineOfTheirOwn) {
  RunConfig config = small();
  config.batch.global = 4, config.batch.micro = 1;
  PaperRun run(config, 16, cpu_target());
  const std::string screen = plan_screen(make_report(config, run, nullptr, "none"));
  EXPECT_NE(screen.find(
                "\n  idle      12 of 16 ranks are idle in forward and backward: a step has 4 micro-batches"),
            std::string::npos)
      << screen;
  PaperRun four(config, 4, cpu_target());
  EXPECT_EQ(plan_screen(make_report(config, four, nullptr, "none")).find("  idle "), std::string::npos);
}

}  // namespace
}  // namespace lockstep
