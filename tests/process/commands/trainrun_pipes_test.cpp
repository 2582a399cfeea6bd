// Configs and data through the pipes of a shell.
#include <gtest/gtest.h>

#include "tests/process/commands/trainrun_fixture.h"

namespace lockstep {
namespace {

// A pipe gives its bytes once, and a config is looked at more than once.
TEST_F(Trainrun, ConfigsThroughPipes) {
  const std::string self = TRAINRUN;
  const auto shell = [&](const std::string& line) {
    Process process({"/bin/bash", "-c", line}, scratch_.path("out"));
    const int code = process.wait(20);
    return Result{code, process.output()};
  };
  for (const std::string& line :
       {self + " show <(cat c.json)", "cat c.json | " + self + " show /dev/stdin",
        self + " show /dev/stdin < c.json", self + " show /proc/self/fd/0 < c.json"}) {
    const Result shown = shell(line);
    EXPECT_EQ(shown.code, kExitOk) << line << "\n" << shown.output;
    EXPECT_HAS(shown.output, "\"first\"");
  }
  EXPECT_EQ(shell(self + " --nproc 1 <(cat c.json) --name=piped").code, kExitOk);
  EXPECT_HAS(file_text("runs/piped/config.json"), "\"steps\": 4");
  EXPECT_EQ(shell("cat c.json | " + self + " --nproc 2 /dev/stdin --name=stdin").code, kExitOk);
  const Result job = shell(self + " --slurm --nnodes 2 --nproc 1 --dry-run <(cat c.json)");
  EXPECT_EQ(job.code, kExitUser) << job.output;
  EXPECT_HAS(job.output, "--slurm reads the config again in its job, where /dev/fd/");
  const Result data = shell(self + " show c.json --data.paths=[@<(echo a)]");
  EXPECT_EQ(data.code, kExitUser) << data.output;
}

TEST_F(Trainrun, OutputThatDoesNotGoOutIsTold) {
  for (const char* words : {"show --reference", "env", "plan c.json"}) {
    const std::string command = str(TRAINRUN, " ", words, " >/dev/full 2>told");
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), kExitUser) << words;
    EXPECT_HAS(file_text("told"),
               "trainrun: the output is cut: standard output takes no more; is its disk full?\n");
  }
  EXPECT_EQ(std::system(str(TRAINRUN, " show --reference 2>told | head -1 >first").c_str()), 0);
  EXPECT_EQ(file_text("told"), "");
}

}  // namespace
}  // namespace lockstep
