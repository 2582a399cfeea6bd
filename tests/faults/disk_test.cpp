// Faults of the disk under a run: killed saves, full, failing, read-only, gone.
#include "tests/faults/checkpoint_run.h"

namespace lockstep::tests {
namespace {

class Disk : public CheckpointRun {
 protected:
  // The step of the newest folder under its final name.
  static int64_t newest(const std::string& run = "run") {
    int64_t out = 0;
    for (const auto& name : checkpoints(run))
      if (name.find('.') == std::string::npos) out = std::max<int64_t>(out, std::stoll(name.substr(5)));
    return out;
  }
};

TEST_F(Disk, Row20KilledWhileSaving) {
  const Words words = on(2, {"--checkpoint.every=1", "--checkpoint.keep=2"});
  train_whole();
  int64_t killed = 0;
  for (int step : {10, 31, 52, 73}) {
    auto process = start(words);
    const bool there = until(60, [&] { return last_step("run") >= step; });
    ASSERT_TRUE(there) << process->output();
    std::this_thread::sleep_for(std::chrono::microseconds(700 * step));  // some moment of a step or of a save
    const int64_t committed = newest();
    ::kill(process->pid(), SIGKILL);
    EXPECT_EQ(process->wait(20), 128 + SIGKILL);
    ++killed;
    EXPECT_EQ(processes_left(), Words{});
    EXPECT_GE(newest(), std::max<int64_t>(1, committed)) << "a committed checkpoint is lost";
    const Result verified = trainrun({"ckpt", "verify", "runs/run"});
    EXPECT_EQ(verified.code, kExitOk) << verified.output;
  }
  train(words);
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  row({.fault = str("kill -9 of trainrun, ", killed,
                    " times, in a run that saves every step (every operation of a save: "
                    "tests/reshard/crash_test.cpp)"),
       .seen = "nothing; every checkpoint that is there is whole",
       .code = "-9",
       .detected = "next start",
       .recovered = "same command",
       .lost = "<= 1",
       .same_bits = "yes"});
}

// Saves of every step are written beside the next ones; a kill is sent when one is seen to be written.
TEST_F(Disk, Row30ACrashWhileASaveDrains) {
  const Words words = on(2, {"--checkpoint.every=1", "--checkpoint.keep=2"});
  train_whole();
  const auto drains = [] {
    for (const auto& name : checkpoints("run"))
      if (name.find(".tmp") != std::string::npos) return true;
    return false;
  };
  int64_t interrupted = 0;
  for (int step : {8, 20, 32, 44, 56, 68, 80}) {
    auto process = start(words);
    ASSERT_TRUE(until(60, [&] { return last_step("run") >= step; })) << process->output();
    const bool seen = until(5, [&] { return drains() || process->wait(0) >= 0; });
    ASSERT_TRUE(seen && process->wait(0) < 0) << process->output();
    const int64_t committed = newest();
    ::kill(process->pid(), SIGKILL);
    EXPECT_EQ(process->wait(20), 128 + SIGKILL);
    EXPECT_EQ(processes_left(), Words{});
    interrupted += drains();
    EXPECT_GE(newest(), committed) << "a committed checkpoint is lost";
    const Result verified = trainrun({"ckpt", "verify", "runs/run"});
    EXPECT_EQ(verified.code, kExitOk) << verified.output;
  }
  EXPECT_GE(interrupted, 1) << "no kill met a save";
  train(words);
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  EXPECT_FALSE(drains()) << "what an interrupted save left stays";
  row({.fault =
           "kill -9 of trainrun and its ranks, 7 times, when a save is being written beside the next step "
           "(500 times at random moments: bench/kill_saves.sh)",
       .seen = "nothing; every checkpoint that is there is whole",
       .code = "-9",
       .detected = "next start",
       .recovered = "same command, which removes what the interrupted save left",
       .lost = "< 2 x checkpoint.every",
       .same_bits = "yes"});
}

TEST_F(Disk, Row21DiskFull) {
  train_whole();
  // For a moment: the save is tried again.
  Result passed = trainrun(on(2), broken(str("write,", ENOSPC, ",3,2,step-40.tmp")));
  EXPECT_EQ(passed.code, kExitOk) << passed.output;
  EXPECT_HAS(passed.output, "No space left on device at byte ");
  EXPECT_HAS(passed.output, "tried again in 1 s (retry 1 of 3)");
  EXPECT_HAS(passed.output, "the checkpoint of step 40 is saved now (retry ");
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  // For good: the policy. Stopping leaves the older ones whole; going on costs no bit.
  const Words stop = on(2, {"--name=stop", "--checkpoint.retries=1"}),
              go_on = on(2, {"--name=on", "--checkpoint.retries=0", "--checkpoint.on_failure=continue"});
  const Result full = trainrun(stop, broken(str("write,", ENOSPC, ",1,0,step-40.tmp")));
  EXPECT_EQ(full.code, kExitPeer) << full.output;
  EXPECT_HAS(full.output, "checkpoint of step 40 was not saved (older ones are untouched): rank ");
  EXPECT_HAS(full.output,
             "1 retry did not help; make room or mend the disk and start the same command again");
  EXPECT_EQ(checkpoints("stop"), Words{"step-20"});
  train(stop);
  EXPECT_EQ(final_hash("stop"), final_hash("whole"));
  const Result went_on = trainrun(go_on, broken(str("write,", ENOSPC, ",1,0,step-40.tmp")));
  EXPECT_EQ(went_on.code, kExitOk) << went_on.output;
  EXPECT_HAS(went_on.output, "the run goes on WITHOUT this checkpoint (checkpoint.on_failure continue)");
  EXPECT_EQ(checkpoints("on"), (Words{"step-100", "step-60", "step-80"}));
  EXPECT_EQ(final_hash("on"), final_hash("whole"));
  // Rows of metrics.jsonl that do not fit end nothing.
  const Result rows =
      trainrun(on(2, {"--name=rows"}), broken(str("write,", ENOSPC, ",30,40,rows/metrics.jsonl")));
  EXPECT_EQ(rows.code, kExitOk) << rows.output;
  EXPECT_EQ(occurrences(rows.output, "metrics.jsonl: No space left on device; the run goes on"), 1)
      << rows.output;
  EXPECT_HAS(rows.output, "metrics.jsonl takes rows again; none was lost");
  EXPECT_EQ(metrics("rows").size(), 100u);
  expect_same_run("whole", "rows");
  row({.fault =
           "ENOSPC in a save, for a moment and for good (policies stop and continue), and in metrics.jsonl",
       .seen = "checkpoint of step 40 was not saved (older ones are untouched): rank 0: cannot write ...: No "
               "space left on device at byte 0; tried again in 1 s (retry 1 of 3)",
       .code = "0; 75 (stop), 0 (continue); 0",
       .detected = "at once",
       .recovered = "by itself; same command after making room",
       .lost = "0; 20",
       .same_bits = "yes"});
}

TEST_F(Disk, Row22DiskFailsOrTurnsReadOnly) {
  train_whole();
  // Interrupted and short calls are none.
  Result result =
      trainrun(on(2, {"--name=eintr"}),
               broken(str("write,", EINTR, ",2,3,runs/eintr;fsync,", EINTR, ",1,2,runs/eintr;open,", EINTR,
                          ",2,1,metrics.jsonl;write,0,8,20,runs/eintr")));
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_EQ(result.output.find("Interrupted"), std::string::npos) << result.output;
  expect_same_run("whole", "eintr");
  // EIO passes with the next try.
  for (const char* call : {"fsync", "rename"}) {
    const std::string name = str("eio-", call);
    result = trainrun(on(2, {"--name=" + name}), broken(str(call, ",", EIO, ",1,1,step-40.tmp")));
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "Input/output error; tried again in 1 s (retry 1 of 3)");
    EXPECT_EQ(final_hash(name), final_hash("whole"));
  }
  // The whole folder turns read-only in mid-run: log, record and metrics go there too, and the cause is told
  // all the same.
  Words rules;
  for (const char* call : {"open", "write", "fsync", "rename", "mkdir", "link"})
    rules.push_back(str(call, ",", EROFS, ",1,0,runs/ro/"));
  const Words words = on(2, {"--name=ro", "--train.steps=100000", "--checkpoint.retries=0"});
  auto process = start(words, broken(join(rules, ";"), scratch_.path("read-only")));
  ASSERT_TRUE(until(60, [&] { return newest("ro") >= 20; })) << process->output();
  scratch_.write("read-only", "now");
  EXPECT_EQ(process->wait(60), kExitPeer);
  EXPECT_HAS(process->output(), "trainrun: root cause: rank ");
  EXPECT_HAS(process->output(), "was not saved (older ones are untouched): rank ");
  EXPECT_HAS(process->output(), "Read-only file system");
  EXPECT_EQ(process->output().find("left no error record"), std::string::npos) << process->output();
  EXPECT_EQ(trainrun({"ckpt", "verify", "runs/ro"}).code, kExitOk);
  // And where it is gone, with a file in its place.
  auto gone = start(
      on(2, {"--name=gone", "--train.steps=100000", "--checkpoint.retries=0", "--checkpoint.async=false"}));
  ASSERT_TRUE(until(60, [&] { return last_step("gone") >= 25; })) << gone->output();
  fs::rename("runs", "taken");
  scratch_.write("runs", "a file");
  EXPECT_EQ(gone->wait(60), kExitPeer);
  EXPECT_HAS(gone->output(), "was not saved (older ones are untouched): rank 0: cannot make folder ");
  EXPECT_HAS(gone->output(), "/runs/gone/ckpt: Not a directory");
  fs::remove("runs");
  fs::rename("taken", "runs");
  row({.fault = "EINTR and short writes everywhere; EIO at a fsync and at a rename; the run's folder "
                "read-only in mid-run; the folder taken away",
       .seen = "root cause: rank 1: PeerError at step 40: checkpoint of step 40 was not saved (older ones "
               "are untouched): rank 0: cannot ...: Read-only file system",
       .code = "0; 0; 75; 75",
       .detected = "at the save",
       .recovered = "by itself; same command once it is writable",
       .lost = "0; <= 20",
       .same_bits = "yes"});
}

TEST_F(Disk, Row72APlainFileInThePlaceOfTheCheckpoints) {
  fs::create_directories("runs/run");
  scratch_.write("runs/run/ckpt", "a file");
  for (int nproc : {1, 2}) {
    const Result refused = trainrun(on(nproc));
    EXPECT_EQ(refused.code, kExitUser) << refused.output;
    EXPECT_HAS(refused.output, "cannot make folder ");
    EXPECT_HAS(refused.output, "/runs/run/ckpt: something that is no folder has its name");
  }
  row({.fault = "runs/NAME/ckpt is a plain file",
       .seen = "UserError: cannot make folder .../runs/run/ckpt: something that is no folder has its name",
       .code = "2",
       .detected = "before step 1",
       .recovered = "remove it",
       .lost = "0",
       .same_bits = "-"});
}

}  // namespace
}  // namespace lockstep::tests
