// What the logs of a run tell of its attempts, and what logs that others wrote cannot do.
#include "launcher/cli/look/run_events.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/base/text.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::cli {
namespace {

struct Logs : ScratchFolder {
  // The events of one attempt as "STEP TEXT" lines.
  std::string told(const std::string& log, const std::string& launcher = "") {
    write("run/logs/attempt-1/rank-0.log", log);
    write("run/logs/attempt-1/launcher.log", launcher);
    std::string out;
    for (const auto& event : attempts_of(path("run")).events) out += str(event.step, " ", event.text, "\n");
    return out;
  }
};

TEST(RunEvents, AreFoundInTheLogs) {
  Logs run;
  run.write("run/logs/attempt-1/worker-0.json", "{}");
  EXPECT_EQ(run.told("compiled in 1.2 s (2 kernels); starting at step 1\n"), "0 started on 1 rank\n");
  EXPECT_EQ(run.told("resumed from runs/x (step 7/ckpt/step-20 (step 20, saved on 2 ranks)\n"),
            "20 resumed on 1 rank\n");
  EXPECT_EQ(
      run.told("stopped on request after step 12; saved\nstopped after step 13 to go on with other ranks; x\n"
               "done: 40 steps, 3 s\n"),
      "12 stopped on request, saved\n13 stopped to go on with other ranks\n40 done\n");
  EXPECT_EQ(
      run.told("step 3 is passed over: nan\nwarning: step 4: the loss is large; going on behind it from x\n"
               "a step 5 is passed over\nstep 6: fine\n"),
      "3 step 3 is passed over: nan\n4 warning: step 4: the loss is large; going on behind it from x\n");
  EXPECT_EQ(run.told("", "x\nroot cause: rank 1 died; step 9, or so; step 12 it was\nroot cause: later\n"),
            "12 rank 1 died; step 9, or so; step 12 it was\n");
  EXPECT_EQ(run.told("", "root cause: nobody knows\n"), "-1 nobody knows\n");
}

TEST(RunEvents, NumbersThatNoStepHas) {
  Logs run;
  const std::string large = "100000000000000000000000", long_one(400, '9');
  for (const std::string& step : {large, long_one, std::string("-1"), std::string()})
    EXPECT_EQ(run.told(str("done: ", step, " steps, 3 s\nstep ", step,
                           " is passed over\nstopped on request after step ", step,
                           "; saved\nresumed from a (step ", step, ", b)\n")),
              "")
        << step;
  EXPECT_EQ(run.told("", "root cause: x; step " + large + "\n"), "-1 x; step " + large + "\n");
  // A line that is longer than any of ours, and one that a regular expression would follow into its stack.
  EXPECT_EQ(run.told("resumed from " + std::string(3900, 'x') + "\nresumed from " +
                     std::string(1 << 20, '(') + "\n"),
            "");
}

TEST(RunEvents, RecordsThatAreNone) {
  Logs run;
  const auto with = [&](const std::string& record) {
    run.write("run/logs/attempt-1/error-1.json", record);
    return run.told("");
  };
  EXPECT_EQ(with(R"({"rank": 2, "step": 5, "message": "gone"})"), "5 rank 2: gone\n");
  EXPECT_EQ(with(R"({"rank": {}, "step": [], "message": "gone"})"), "-1 rank {}: gone\n");
  EXPECT_EQ(with(R"({"message": 3})"), "");
  EXPECT_EQ(with(std::string(200000, '[')), "");
}

TEST(RunEvents, NoPipeIsWaitedFor) {
  Logs run;
  run.told("done: 3 steps, 1 s\n");
  for (const char* name : {"rank-0.log", "launcher.log", "error-1.json"}) {
    const std::string at = run.path(str("run/logs/attempt-1/", name));
    ::unlink(at.c_str());
    ASSERT_EQ(::mkfifo(at.c_str(), 0600), 0);
  }
  EXPECT_EQ(attempts_of(run.path("run")).events.size(), 0u);
}

}  // namespace
}  // namespace lockstep::launcher::cli
