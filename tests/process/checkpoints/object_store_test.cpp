// Runs whose checkpoints are in an object store, and every command that reads checkpoints, on s3:// paths.
#include <signal.h>

#include "core/base/json.h"
#include "tests/support/real_run.h"
#include "tests/support/s3_server.h"

namespace lockstep::tests {
namespace {

class ObjectStore : public RealRun {
 protected:
  std::string said(std::vector<std::string> words, int code = kExitOk) {
    const Result result = trainrun(words);
    EXPECT_EQ(result.code, code) << join(words, " ") << "\n" << result.output;
    return result.output;
  }
  // No file of a run, no log and no record has the secret.
  void expect_no_secret(const std::string& secret) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator("runs")) {
      if (!entry.is_regular_file()) continue;
      EXPECT_EQ(file_text(entry.path()).find(secret), std::string::npos) << entry.path();
    }
  }
};

TEST_F(ObjectStore, ARunKeepsItsCheckpointsThere) {
  if (const std::string why = S3Server::missing(); !why.empty()) GTEST_SKIP() << why;
  const S3Server server;
  server.export_settings();
  write_tiny();
  const std::string there = "--checkpoint.dir=s3://bucket/some/prefix", run = "s3://bucket/some/prefix/run";
  train({"--nproc", "2", "c.json", "--train.steps=60", "--name=whole"});
  train({"--nproc", "2", "c.json", "--train.steps=40", there, "--checkpoint.best=true"});
  EXPECT_FALSE(std::filesystem::exists("runs/run/ckpt"));
  EXPECT_EQ(file_text("runs/run/ckpt.at"), run + "/ckpt\n");
  EXPECT_EQ(said({"ckpt", "ls", "runs/run"}), said({"ckpt", "ls", run}));
  const Result resumed = trainrun({"--nproc", "3", "c.json", "--train.steps=60", there});
  EXPECT_EQ(resumed.code, kExitOk) << resumed.output;
  EXPECT_HAS(resumed.output, str("resumed from ", run, "/ckpt/step-40 (step 40, state "));
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  EXPECT_HAS(said({"ckpt", "verify", run}),
             run + "/ckpt/step-60: whole: every checksum and the state hash agree");
  EXPECT_HAS(said({"ckpt", "show", run}), run + "/ckpt/step-60\n");
  EXPECT_HAS(said({"ckpt", "diff", run, "runs/whole"}), "equal: 84 tensors, state hash ");
  EXPECT_EQ(said({"ckpt", "cat", run + "/ckpt/step-60", "blocks.1.mlp.up.weight", "--index=0:2"}),
            said({"ckpt", "cat", "runs/whole", "blocks.1.mlp.up.weight", "--index=0:2"}));
  EXPECT_HAS(said({"ckpt", "ls", "s3://bucket/some/prefix/run/best"}), "/best/step-");
  const std::string made = "s3://bucket/made";
  EXPECT_HAS(said({"ckpt", "reshard", run, made, "--ranks", "4"}),
             "wrote s3://bucket/made/ckpt/step-60: 4 files");
  EXPECT_HAS(said({"ckpt", "diff", made, "runs/whole"}), "equal: 84 tensors");
  EXPECT_HAS(said({"ckpt", "reshard", run, made, "--ranks", "4"}, kExitUser),
             "s3://bucket/made/ckpt/step-60 is there already, and is left as it is; name another OUT");
  EXPECT_HAS(said({"ckpt", "average", run + "/ckpt/step-40", run, "runs/mean"}), "the mean of 28 tensors");
  EXPECT_HAS(said({"ckpt", "average", run + "/ckpt/step-40", run, "s3://bucket/mean"}),
             "wrote s3://bucket/mean/ckpt/step-60: the mean of 28 tensors over 2 checkpoints, ");
  EXPECT_HAS(said({"ckpt", "diff", "s3://bucket/mean", "runs/mean"}), "equal: 28 tensors");
  EXPECT_HAS(said({"ckpt", "prune", "runs/run", "--keep", "1"}, kExitUser),
             str("prune: runs/run/ckpt.at says that the run's checkpoints are in ", run,
                 "/ckpt; name that folder itself, since nothing is removed on a file's word"));
  EXPECT_HAS(said({"ckpt", "prune", run, "--keep", "1"}), "2 of 3 removed");
  EXPECT_HAS(said({"ckpt", "verify", run}), "step-60: whole");
  train({"--nproc", "1", "c.json", "--train.steps=5", "--name=next", "--train.init_from=" + run});
  EXPECT_HAS(said({"ckpt", "ls", "s3://bucket/none"}, kExitUser), "no folder s3://bucket/none; name a run");
  EXPECT_HAS(said({"replay", "runs/run", "--step=60", "--from-start"}), "step 60");
  expect_no_secret(server.settings().secret_key);
  // Back in the run's own folder.
  train({"--nproc", "1", "c.json", "--train.steps=5"});
  EXPECT_FALSE(std::filesystem::exists("runs/run/ckpt.at"));
}

// A run that is killed leaves its lock, which the next one takes, and goes on from what was committed.
TEST_F(ObjectStore, AKilledRunGoesOn) {
  if (const std::string why = S3Server::missing(); !why.empty()) GTEST_SKIP() << why;
  const S3Server server;
  server.export_settings();
  write_tiny();
  const std::string there = "--checkpoint.dir=s3://bucket";
  train({"--nproc", "2", "c.json", "--train.steps=60", "--name=whole"});
  auto run = start({"--nproc", "2", "c.json", "--train.steps=1000000", "--checkpoint.every=5", there});
  ASSERT_TRUE(until(60, [&] { return trainrun({"ckpt", "ls", "s3://bucket/run"}).code == kExitOk; }));
  const Result second = trainrun({"--nproc", "1", "c.json", "--train.steps=60", there, "--name=other"});
  EXPECT_EQ(second.code, kExitOk) << second.output;
  ::kill(-run->pid(), SIGKILL);
  run->wait(10);
  const Result resumed = trainrun({"--nproc", "2", "c.json", there, "--train.steps=1"});
  EXPECT_EQ(resumed.code, kExitOk) << resumed.output;
  EXPECT_HAS(resumed.output, "nothing to do: s3://bucket/run/ckpt holds step ");
  EXPECT_HAS(trainrun({"ckpt", "verify", "s3://bucket/run"}).output, ": whole: ");
}

// An endpoint that is not there ends the run before its first step, and says what to set.
TEST_F(ObjectStore, NobodyThere) {
  write_tiny();
  const Variables nowhere{{"AWS_ENDPOINT_URL", "http://127.0.0.1:1"},
                          {"AWS_ACCESS_KEY_ID", "key"},
                          {"AWS_SECRET_ACCESS_KEY", "a-secret-word"}};
  const Result refused = trainrun({"--nproc", "2", "c.json", "--checkpoint.dir=s3://bucket/x"}, nowhere);
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_HAS(refused.output, "cannot lock s3://bucket/x/run/ckpt/.lock: ");
  EXPECT_HAS(refused.output, "AWS_ENDPOINT_URL says where it is");
  EXPECT_EQ(refused.output.find("a-secret-word"), std::string::npos);
  expect_no_secret("a-secret-word");
  const Result unset =
      trainrun({"ckpt", "ls", "s3://bucket/x"}, {{"AWS_ACCESS_KEY_ID", ""}, {"AWS_SECRET_ACCESS_KEY", ""}});
  EXPECT_EQ(unset.code, kExitUser) << unset.output;
  EXPECT_HAS(unset.output, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set");
}

}  // namespace
}  // namespace lockstep::tests
