// Faults of what ranks say to each other: other collectives, other sizes, changed messages, meshes that do
// not fit.
#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

class CommunicationRun : public FaultRun {
 protected:
  // The program with a fault in step 300 of rank 1, which must end for it. Seconds from then on.
  std::string ends_for(const std::string& fault, const std::vector<std::string>& parts) {
    auto process = start({"--nproc", "2", GROUP_PROGRAM, fault, "300"});
    EXPECT_EQ(process->wait(40), kExitPeer) << fault << "\n" << process->output();
    for (const auto& part : parts) EXPECT_HAS(process->output(), part);
    return process->output();
  }
};

TEST_F(CommunicationRun, Row14AnotherCollective) {
  ends_for("barrier", {"root cause: collective ",
                       " of group world differs: rank 0 started all_reduce \"count\" (i64, 2 elements, sum), "
                       "rank 1 started barrier \"mine\""});
  ends_for("extra", {"of group world differs: rank 0 started all_reduce \"count\" (i64, 2 elements, sum), "
                     "rank 1 started all_reduce "
                     "\"mine\" (i64, 2 elements, sum)"});
  ends_for("label", {"root cause: ", "of group world"});
  row({.fault = "rank 1 of a program calls an extra barrier, an extra all_reduce, another label",
       .seen = "root cause: collective 601 of group world differs: rank 0 started all_reduce \"count\" (i64, "
               "2 elements, sum), rank 1 "
               "started barrier \"mine\"",
       .code = "75",
       .detected = "< 2 s",
       .recovered = "mend the program",
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(CommunicationRun, Row15AnotherSizeOrDtype) {
  ends_for("dtype", {"root cause: ", "of group world"});
  ends_for("size", {"differs: rank 0 started all_reduce \"count\" (i64, 2 elements, sum), rank 1 started "
                    "all_reduce \"count\" (i64, 4 elements, sum)"});
  row({.fault = "another count, another dtype (of as many bytes) in one rank's collective",
       .seen = "root cause: collective 600 of group world differs: rank 0 started all_reduce \"count\" (i64, "
               "2 elements, sum), rank 1 "
               "started all_reduce \"count\" (i64, 4 elements, sum)",
       .code = "75",
       .detected = "< 2 s",
       .recovered = "mend the program",
       .lost = "-",
       .same_bits = "-"});
}

TEST_F(CommunicationRun, Row16APeerDiesInACapturedCollective) {
  if (!std::filesystem::exists("/dev/nvidia0") && !std::filesystem::exists("/dev/nvidiactl")) {
    row({.fault =
             "kill -9 of rank 1 of 2 GPUs, within captured steps; not on the machine that made this page, "
             "which has no GPU, but by ONLY=lost tests/gpu/check.sh on H200s, 2026-11-22",
         .seen = "root cause: rank 1 died: SIGKILL (9)",
         .code = "75",
         .detected = "the run ended after 0.4 s",
         .recovered = "same command"},
        "has no GPU");
    GTEST_SKIP() << "no GPU here: tests/gpu/nccl_lost.cpp and tests/gpu/check.sh show it where there is one";
  }
  write_tiny();
  const Result killed = trainrun({"--nproc", "2", "--train.device=cuda", "--deadline", "20", "c.json"},
                                 {{"LOCKSTEP_FAULT", "kill:rank=1,step=50"}});
  if (killed.code == kExitUser) GTEST_SKIP() << "not two GPUs: " << killed.output;
  EXPECT_EQ(killed.code, kExitPeer) << killed.output;
  EXPECT_HAS(killed.output, "root cause: rank 1 died: SIGKILL (9)");
  row({.fault = "kill -9 of rank 1 of 2 GPUs, within captured steps",
       .seen = "root cause: rank 1 died: SIGKILL (9)",
       .code = "75",
       .detected = "at once",
       .recovered = "same command",
       .lost = "<= 20",
       .same_bits = "yes"});
}

TEST_F(CommunicationRun, Row18AFlippedBit) {
  write_tiny();
  train({"--nproc", "2", "--train.device=cpu", "--name=whole", "c.json"});
  const Variables tcp = {{"OMPI_MCA_btl", "self,tcp"}};
  Variables flipped = tcp;
  flipped["LD_PRELOAD"] = FLIP_WRITEV;
  // By default there are no checksums in shared memory, and there are over TCP.
  const Result seen = trainrun({"--nproc", "2", "--train.device=cpu", "c.json"}, flipped);
  EXPECT_EQ(seen.code, kExitPeer) << seen.output;
  EXPECT_HAS(seen.output, "what rank 0 received from rank 1 is not what was sent: ");
  EXPECT_HAS(seen.output, " bytes with checksum ");
  trainrun({"--nproc", "2", "--train.device=cpu", "c.json"}, tcp);
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  // Without them, what arrived is what is trained with.
  const Result blind = trainrun(
      {"--nproc", "2", "--train.device=cpu", "--name=blind", "--verify.collectives=off", "c.json"}, flipped);
  EXPECT_TRUE(blind.code != kExitOk || final_hash("blind") != final_hash("whole")) << "the fault did nothing";
  row({.fault = "one bit of a message of rank 1 over TCP flipped (writev, preloaded)",
       .seen = "root cause: rank 1: PeerError at step 14: group \"dp_replicate\": all_gather ... what rank 0 "
               "received from rank 1 is not "
               "what was sent: 4096 bytes with checksum ...",
       .code = "75",
       .detected = "at once",
       .recovered = "same command; by itself with --max-restarts",
       .lost = "<= 20",
       .same_bits = "yes"});
}

TEST_F(CommunicationRun, Row19MeshesThatDoNotFit) {
  write_tiny();
  const struct {
    std::vector<std::string> words;
    const char* says;
  } cases[] = {
      {{"--nproc", "2", "--mesh.shape=[4]"}, "mesh.shape [4] multiplies out to 4, but there are 2 ranks"},
      {{"--nproc", "3", "--mesh.shape=[2,-1]", "--mesh.dim_names=[dp_replicate,dp_shard]"},
       "mesh.shape [2,-1]"},
      {{"--nproc", "3", "--mesh.shape=[-1]", "--mesh.dim_names=[tp]"}, "tp"},
      {{"--nproc", "2", "--batch.global=9"}, "batch.global is 9, not a multiple of batch.micro"},
      {{"--nproc", "2", "--mesh.shape=[1,2]", "--mesh.dim_names=[dp_replicate,pp]"}, "pp"},
  };
  for (const auto& one : cases) {
    std::vector<std::string> words = one.words;
    words.insert(words.end(), {"--train.device=cpu", "c.json"});
    const Result refused = trainrun(words);
    EXPECT_EQ(refused.code, kExitUser) << refused.output;
    EXPECT_HAS(refused.output, one.says);
    EXPECT_FALSE(std::filesystem::exists("runs/run/logs/attempt-1"));
  }
  row({.fault = "shape [4] on 2 ranks; [2,-1] on 3; tp 3 with 2 heads; a global batch of 9 in twos; pp 2",
       .seen = "mesh.shape [4] multiplies out to 4, but there are 2 ranks; [2] fits 2 ranks; or start with "
               "--nproc 4",
       .code = "2",
       .detected = "before the start",
       .recovered = "-",
       .lost = "-",
       .same_bits = "-"});
}

}  // namespace
}  // namespace lockstep::tests
