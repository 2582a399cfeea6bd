// compile.memory_budget through the real trainrun: plan says what it costs, the run says the same and ends
// with the same bits.
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class MemoryBudget : public RealRun {
 protected:
  static std::string found(const std::string& text, const std::string& pattern) {
    std::smatch match;
    return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "";
  }
  std::string plan(const std::string& budget) {
    auto result = trainrun({"plan", "--long", "--nproc", "2", "c.json", "--model.context=64",
                            "--compile.memory_budget=" + budget});
    EXPECT_EQ(result.code, kExitOk) << result.output;
    return result.output;
  }
};

TEST_F(MemoryBudget, PlanAndRunSayWhatIsRecomputedAndBitsStay) {
  write_tiny();
  auto run = [&](const std::string& budget, const std::string& name, const char* nproc = "1") {
    train({"--nproc", nproc, "c.json", "--model.context=64", "--train.steps=5",
           "--compile.memory_budget=" + budget, "--name=" + name});
    return RunRecord("runs/" + name).log(0);
  };
  const std::string none = plan("none"), full = plan("full");
  EXPECT_EQ(none.find("recomputed"), std::string::npos);
  const std::string again = found(full, "\n  recomputed +([^\n]*)");
  EXPECT_TRUE(std::regex_match(
      again, std::regex(R"(\d+ values, \+\d+\.\d % of the step's flops, arena .* instead of .*)")))
      << again;
  const int64_t most = std::stoll(found(none, "\n  arena +([0-9]+) bytes")),
                least = std::stoll(found(full, "\n  arena +([0-9]+) bytes"));
  EXPECT_LT(least, most);
  EXPECT_EQ(run("none", "kept").find("backward recomputes"), std::string::npos);
  EXPECT_HAS(run("full", "repeated", "2"), "backward recomputes " + again);
  const std::string half = str((least + most) / 2);
  EXPECT_LE(std::stoll(found(plan(half), "\n  arena +([0-9]+) bytes")), (least + most) / 2);
  EXPECT_HAS(run(half, "half", "2"), "backward recomputes ");  // as planned: lanes follow a rank's threads
  for (const char* other : {"repeated", "half"}) expect_same_run("kept", other);

  auto refused =
      trainrun({"plan", "--nproc", "2", "c.json", "--model.context=64", "--compile.memory_budget=1KiB"});
  EXPECT_EQ(refused.code, kExitUser);
  EXPECT_HAS(refused.output,
             str("compile.memory_budget 1024 bytes (1.00 KiB): the arena of the step needs at least ", least,
                 " bytes"));
}

// Copies are chosen by the device's rates, and their bits are those of a run that keeps all.
TEST_F(MemoryBudget, ActivationsWaitOnTheHost) {
  write_tiny();
  const std::vector<std::string> config{"c.json", "--model.context=64", "--train.steps=5"};
  auto words = [&](std::vector<std::string> first, const std::vector<std::string>& more) {
    first.insert(first.end(), config.begin(), config.end());
    first.insert(first.end(), more.begin(), more.end());
    return first;
  };
  train(words({"--nproc", "1"}, {"--name=kept"}));
  // Below what recomputing alone can do, so that something is copied whatever the rates.
  const int64_t least = std::stoll(found(plan("full"), "\n  arena +([0-9]+) bytes"));
  const std::vector<std::string> away{str("--compile.memory_budget=", least * 15 / 16),
                                      "--compile.offload_activations=true"};
  auto planned = trainrun(words({"plan", "--long", "--nproc", "2"}, away));
  ASSERT_EQ(planned.code, kExitOk) << planned.output;
  const std::string waits = found(planned.output, "\n  offloaded +([^\n]*)");
  EXPECT_TRUE(std::regex_match(
      waits,
      std::regex(R"(\d+ values, .* to the host and back in each micro-batch, arena .* instead of .*)")))
      << planned.output;
  EXPECT_LE(std::stoll(found(planned.output, "\n  arena +([0-9]+) bytes")), least * 15 / 16);
  EXPECT_HAS(planned.output, "activations that wait");
  auto program = trainrun(words({"plan", "--program", "--nproc", "2"}, away));
  EXPECT_HAS(program.output, "start copies \"activation 0");
  auto more = away;
  more.emplace_back("--name=away");
  train(words({"--nproc", "2"}, more));
  EXPECT_HAS(RunRecord("runs/away").log(0), "activations wait on the host: " + waits);
  expect_same_run("kept", "away");
  auto refused = trainrun(words({"plan", "--nproc", "2"}, {"--compile.offload_activations=true"}));
  EXPECT_EQ(refused.code, kExitUser);
  EXPECT_HAS(refused.output, "compile.offload_activations is true, and compile.memory_budget is none; give");
}

// The rows are those that plans of their own have.
TEST_F(MemoryBudget, BudgetsAreBytesAgainstTime) {
  write_tiny();
  auto result = trainrun({"plan", "--budgets", "--json", "--nproc", "2", "c.json", "--model.context=64"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  const Json rows = Json::parse(result.output)["budgets"];
  ASSERT_GE(rows.size(), 3u) << rows;
  EXPECT_EQ(rows.front()["memory_budget"], "none");
  EXPECT_EQ(rows.front()["recomputed_values"], 0);
  Json last;  // of those without copies, which stand before the others
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_GT(rows[i]["step"], 0) << rows[i];
    const std::string word = rows[i]["memory_budget"];
    if (rows[i]["offload_activations"]) {
      EXPECT_GT(rows[i]["offloaded_values"], 0) << rows[i];
      continue;
    }
    EXPECT_EQ(rows[i]["offloaded_values"], 0) << rows[i];
    last = rows[i];
    EXPECT_EQ(rows[i]["arena"], std::stoll(found(plan(word), "\n  arena +([0-9]+) bytes"))) << word;
    if (i == 0) continue;
    EXPECT_LT(rows[i]["arena"], rows[i - 1]["arena"]) << rows;
    EXPECT_LT(rows[i]["bytes"], rows[i - 1]["bytes"]) << rows;
    EXPECT_GT(rows[i]["recomputed_values"], 0) << rows[i];
  }
  EXPECT_EQ(last["memory_budget"], "full");
  auto text = trainrun({"plan", "--budgets", "--nproc", "2", "c.json", "--model.context=64"});
  EXPECT_EQ(text.code, kExitOk);
  EXPECT_HAS(text.output, "\nbytes against time, by compile.memory_budget\n");
  EXPECT_HAS(text.output, "\n  full ");
  auto refused = trainrun({"plan", "--budgets", TRAINRUN});
  EXPECT_EQ(refused.code, kExitUser);
  EXPECT_HAS(
      refused.output,
      "plan: --budgets plans a config under several values of compile.memory_budget, and a program has "
      "none; leave --budgets out, or give a config");
}

}  // namespace
}  // namespace lockstep::tests
