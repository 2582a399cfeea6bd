// Faults of inputs: sizes that the machine does not have.
#include <chrono>
#include <functional>

#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What the host has is said by LOCKSTEP_MEMORY, so that the test does not depend on this one.
TEST_F(FaultRun, Row39MemoryThatDoesNotSuffice) {
  write_tiny();
  const std::vector<std::string> large = {"--train.device=cpu", "--model.width=256", "--model.depth=8",
                                          "--train.steps=1", "c.json"};
  auto on = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  // The state alone: 6.4 million parameters and their moments, 74 MiB on each rank.
  Result refused = trainrun(on({"--nproc", "2"}, large), {{"LOCKSTEP_MEMORY", "100MiB"}});
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_HAS(refused.output, "run does not fit on this host: 2 ranks need ");
  EXPECT_HAS(refused.output,
             "; there are 100.00 MiB (LOCKSTEP_MEMORY). Choose a smaller model or batch.micro, fewer ranks, "
             "the mesh dim dp_shard, compile.memory_budget, or more memory");
  EXPECT_HAS(refused.output, "\n  moments  ");
  EXPECT_FALSE(std::filesystem::exists("runs/run/config.json"));  // nothing was taken
  // What is computed with: by the plan of the step.
  refused = trainrun({"--train.device=cpu", "--model.context=1024", "--batch.micro=12", "c.json"},
                     {{"LOCKSTEP_MEMORY", "50MiB"}});
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_HAS(refused.output, "run does not fit on this host: its rank needs ");
  EXPECT_HAS(refused.output, "most of it for activations");
  // Terabytes: a plan is a plan of a cluster, a run is refused, both soon.
  const std::vector<std::string> huge = {"--train.device=cpu", "--model.width=65536", "--model.heads=64",
                                         "--model.depth=100", "c.json"};
  const double run_s = seconds_of([&] { refused = trainrun(huge); });
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_HAS(refused.output, "TiB");
  EXPECT_LT(run_s, 20);
  const Result planned = trainrun(on({"plan", "--long"}, huge), {{"LOCKSTEP_MEMORY", "16GiB"}});
  EXPECT_EQ(planned.code, kExitOk) << planned.output;
  EXPECT_HAS(planned.output,
             "this host has             17179869184 bytes (16.00 GiB) for 1 rank (LOCKSTEP_MEMORY)\n  THIS "
             "HOST CANNOT HOLD IT: 1 rank needs ");
  const double bound_s = seconds_of([&] { refused = trainrun({"--batch.global=1099511627776", "c.json"}); });
  EXPECT_EQ(refused.code, kExitUser);
  EXPECT_HAS(refused.output, "batch.global is 1099511627776; it must be at least 1 and at most 16777216");
  EXPECT_LT(bound_s, 5);
  // Close to it: the run is warned and tried, and what is plenty is not spoken of.
  Result warned = trainrun({"--train.device=cpu", "--train.steps=1", "--name=close", "c.json"},
                           {{"LOCKSTEP_MEMORY", "200MiB"}});
  EXPECT_EQ(warned.code, kExitOk) << warned.output;
  EXPECT_HAS(warned.output, "memory may run out: the ranks of this host take up to ");
  warned = trainrun({"--train.device=cpu", "--train.steps=1", "--name=plenty", "c.json"},
                    {{"LOCKSTEP_MEMORY", "16GiB"}});
  EXPECT_EQ(warned.code, kExitOk) << warned.output;
  EXPECT_EQ(warned.output.find("memory may run out"), std::string::npos) << warned.output;
  row({.fault = "a model, a micro-batch and terabytes beyond the host's memory; batch.global 2^40; a host "
                "that is nearly full",
       .seen = "run does not fit on this host: 2 ranks need 148.17 MiB together, 74.08 MiB each, most of it "
               "for moments; there are 100.00 MiB; plan: THIS HOST CANNOT HOLD IT",
       .code = "2; plan 0; nearly full: a warning",
       .detected = "before anything is taken, in 1 to 2 s",
       .recovered = "the message names the ways out",
       .lost = "0",
       .same_bits = "-"});
}

}  // namespace
}  // namespace lockstep::tests
