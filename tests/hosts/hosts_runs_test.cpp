// Runs on several hosts: by ssh, by the same command on each host, stopped and continued; the bits are those
// of one rank.
#include "tests/hosts/host_run.h"

namespace lockstep::tests {
namespace {

class HostRuns : public HostRun {};

TEST_F(HostRuns, NamedHostsGiveTheBitsOfOneRank) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=20"});
  auto result =
      on_hosts(2, "at 0 $trainrun --hosts h0:2,h1:2 --network eth0 --name=two c.json --train.steps=20\n");
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output,
             "gradients are exchanged inside 2 hosts first, then across, by 2 data ranks of each\n");
  expect_same_run("one", "two");
  const RunRecord run("runs/two");
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(Json::parse(file_text(str(run.log_dir(), "/worker-", rank, ".json")))["host"],
              rank < 2 ? "h0" : "h1");
  std::ofstream("hosts.txt") << "h0 slots=1\nh2 slots=2  # the third\n";
  result = on_hosts(3, "at 0 $trainrun --hostfile hosts.txt --name=file c.json --train.steps=20\n");
  EXPECT_EQ(result.code, kExitOk) << result.output;
  expect_same_run("one", "file");
}

// All sockets that wait for connections from elsewhere, but sshd's.
TEST_F(HostRuns, MpiListensOnThePortsThatAFirewallLetsThrough) {
  auto result = on_hosts(2, R"(
at 0 $trainrun --hosts h0:2,h1:2 --network eth0 --ports 30000-30019 --name=ports c.json --train.steps=600 &
)" + once_it_runs("ports") + R"(
for k in 0 1; do
  at $k ss -ltnH | awk '{print $4}' | grep -v '^127[.]\|^.::1.:\|:2222$' | sed 's/.*:/listens on /'
done
wait
)");
  EXPECT_EQ(result.code, kExitOk) << result.output;
  int listening = 0;
  for (const auto& line : split(result.output, '\n')) {
    if (line.rfind("listens on ", 0) != 0) continue;
    ++listening;
    EXPECT_EQ(line.size(), 16u) << line;
    EXPECT_GE(line, "listens on 30000");
    EXPECT_LE(line, "listens on 30019");
  }
  EXPECT_GE(listening, 4) << result.output;
}

TEST_F(HostRuns, TheSameCommandOnEachHost) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=20"});
  auto result = on_hosts(4, R"(
start() {
  at $1 $trainrun --nnodes 4 --nproc-per-node 1 --node-rank $1 --rdzv-endpoint h0:29400 --name=same --network eth0 \
    c.json --train.steps=20 >out$1 2>&1; echo "node $1: $?"
}
for k in 1 3 2 0; do start $k & done
wait
)");
  EXPECT_EQ(result.code, kExitOk) << result.output;
  for (const char* node : {"node 0: 0\n", "node 1: 0\n", "node 2: 0\n", "node 3: 0\n"})
    EXPECT_HAS(result.output, node);
  EXPECT_HAS(file_text("out1"), "trainrun: node 1 (h1) waits for node 0 at h0:29400\n");
  expect_same_run("one", "same");
}

// What torchrun gives two ranks on each host.
TEST_F(HostRuns, RanksOfAnotherLauncherAreOneRun) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=20"});
  auto result = on_hosts(2, R"(
export WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=29600
for k in 0 1 2 3; do
  (RANK=$k LOCAL_RANK=$((k % 2)) at $((k / 2)) $trainrun --network eth0 --name=torch c.json --train.steps=20
   echo "rank $k: $?") &
done
wait
)");
  for (int rank = 0; rank < 4; ++rank) EXPECT_HAS(result.output, str("rank ", rank, ": 0\n"));
  expect_same_run("one", "torch");
  EXPECT_HAS(RunRecord("runs/torch").log(0), "mesh [dp_replicate=4]");
}

TEST_F(HostRuns, ANodeThatDoesNotComeIsNamed) {
  auto result = on_hosts(
      2,
      "at 0 $trainrun --nnodes 2 --node-rank 0 --master-addr h0 --deadline 10,4 c.json; echo 0: $?\n"
      "at 1 $trainrun --nnodes 2 --node-rank 1 --master-addr h0 --deadline 10,2 c.json; echo 1: $?\n");
  EXPECT_HAS(result.output,
             "trainrun: node 1 did not come within 4 s; start the same command on each host, with "
             "--node-rank 1 to 1 and the same folder runs");
  EXPECT_HAS(result.output,
             "node 0 has not asked for the ranks of this host within 2 s; start the same command "
             "with --node-rank 0 at h0");
  EXPECT_HAS(result.output, "0: 2\n");
  EXPECT_HAS(result.output, "1: 75\n");
}

TEST_F(HostRuns, AStopSavesAndTheSameCommandGoesOnOnAnotherNumberOfHosts) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=1500", "--log.every=500",
         "--checkpoint.every=100"});
  const std::string run =
      "--name=stop --network eth0 c.json --train.steps=1500 --log.every=500 --checkpoint.every=100";
  auto result = on_hosts(2, str("at 0 $trainrun --hosts h0:2,h1:2 ", run,
                                " &\n"
                                "until [[ -e runs/stop/ckpt/step-700 ]]; do sleep 0.05; done\n"
                                "at 0 pkill -TERM -o -x trainrun\nwait $!\n"));
  EXPECT_HAS(result.output, "SIGTERM (15): finishing the step and saving; a second signal kills at once\n");
  EXPECT_HAS(result.output, "stopped on request, saved; the same command continues the run\n");
  result = on_hosts(3, str("at 0 $trainrun --hosts h0:1,h1:1,h2:1 ", run, "\n"));
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "resumed from");
  EXPECT_EQ(final_hash("one"), final_hash("stop"));
}

}  // namespace
}  // namespace lockstep::tests
