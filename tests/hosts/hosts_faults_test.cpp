// What breaks between hosts: a rank that dies, a host that is cut off or can only hear, an unknown host. The
// cause has the host's name, and nothing is left on any host.
#include "tests/hosts/host_run.h"

namespace lockstep::tests {
namespace {

class HostFaults : public HostRun {
 protected:
  // What still runs of a run on a host, as a line "left on K: COUNT".
  static std::string count_left(int host) {
    return str("echo left on ", host, ": $(at ", host,
               " bash -c 'grep -l LOCKSTEP_RUN_DIR /proc/[0-9]*/environ 2>/dev/null | wc -l')\n");
  }
};

TEST_F(HostFaults, ARankThatDiesIsNamedWithItsHost) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=20", "--checkpoint.every=5"});
  auto result =
      on_hosts(2,
               "at 0 env LOCKSTEP_FAULT=kill:rank=2,step=12 $trainrun --hosts h0:2,h1:2 --network eth0 "
               "--max-restarts 1 --name=kill c.json --train.steps=20 --checkpoint.every=5\n" +
                   count_left(1));
  EXPECT_HAS(result.output, "trainrun: root cause: rank 2 on h1 died: SIGKILL (9)");
  EXPECT_HAS(result.output, "restart 1 of 1 in 0.5 s, from the last checkpoint, with 4 ranks\n");
  EXPECT_HAS(result.output, "left on 1: 0\n");
  EXPECT_EQ(final_hash("one"), final_hash("kill"));
}

// Not as a start that failed.
TEST_F(HostFaults, AnMpirunThatIsKilledIsToldAsSuch) {
  const std::string run =
      "at 0 $trainrun --hosts h0:1,h1:1 --network eth0 --name=killed c.json --checkpoint.every=5 ";
  auto result = on_hosts(2,
                         str(beside("killed", "kill -9 $(pgrep -ox mpirun)"), run,
                             "--train.steps=100000\necho code $?\n", "sleep 5\n", count_left(1)),
                         90);
  EXPECT_HAS(result.output, "root cause: mpirun died: SIGKILL (9), and the ranks of all hosts with it; ");
  EXPECT_HAS(result.output, "code 75\n");
  EXPECT_HAS(result.output, "left on 1: 0\n");
}

// Its ranks on the hosts still save for some seconds, and the same command waits for them.
TEST_F(HostFaults, ATrainrunThatIsKilledIsFollowedByTheSameCommand) {
  const std::string run =
      "$trainrun --hosts h0:1,h1:1 --network eth0 --name=killed c.json --checkpoint.every=5 "
      "--train.steps=100000 --log.every=1000 ";
  auto result =
      on_hosts(2,
               str("at 0 bash -c 'echo $$ >killed.pid; exec \"$@\"' - ", run, "&\nfirst=$!\n",
                   "for i in $(seq 300); do [[ -e runs/killed/ckpt/latest ]] && break; sleep 0.1; done\n",
                   "at 0 kill -9 $(cat killed.pid)\n", "wait $first\necho killed $?\n", "at 0 timeout 60 ",
                   run, "--timeout 8\necho again $?\nsleep 5\n", count_left(0), count_left(1)),
               90);
  EXPECT_HAS(result.output, "killed 137\n");
  EXPECT_HAS(result.output, "resumed from ");
  EXPECT_HAS(result.output, "again 80\n");
  EXPECT_EQ(result.output.find(" is in use by "), std::string::npos) << result.output;
  EXPECT_HAS(result.output, "left on 0: 0\n");
  EXPECT_HAS(result.output, "left on 1: 0\n");
}

TEST_F(HostFaults, ARankThatStandsIsNamed) {
  auto result =
      on_hosts(2,
               "at 0 env LOCKSTEP_FAULT=hang:rank=3,step=12 $trainrun --hosts h0:2,h1:2 --network eth0 "
               "--deadline 8 c.json\necho code $?\n" +
                   count_left(1));
  EXPECT_HAS(result.output, "rank 3 (process ");
  EXPECT_HAS(result.output, " on h1) gives no sign of life (it is frozen, or its host is cut off)");
  EXPECT_HAS(result.output, "code 75\n");
  EXPECT_HAS(result.output, "left on 1: 0\n");
}

TEST_F(HostFaults, AnErrorOfARankHasItsHost) {
  auto result =
      on_hosts(2,
               "at 0 env LOCKSTEP_FAULT=throw:rank=1,step=3 $trainrun --hosts h0:1,h1:1 --network eth0 "
               "c.json\necho code $?\n" +
                   count_left(1));
  EXPECT_HAS(
      result.output,
      "root cause: rank 1 on h1: InternalError at step 3: fault injected by LOCKSTEP_FAULT at step 3\n");
  EXPECT_HAS(result.output, "code 70\n");
  EXPECT_HAS(result.output, "left on 1: 0\n");
}

// The cut host's ranks end by themselves; the run goes on without them, with the same bits.
TEST_F(HostFaults, AHostThatIsCutOffIsNamedAndLeftOut) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=1500", "--log.every=1000"});
  auto result = on_hosts(
      2,
      beside("cut", "ip link set port1 down") +
          "at 0 $trainrun --nnodes 1:2 --hosts h0:2,h1:2 --network eth0 --max-restarts 1 --deadline 12 "
          "--name=cut c.json --train.steps=1500 --log.every=1000\n"
          "echo code $?\n" +
          count_left(1),
      100);
  EXPECT_HAS(result.output,
             "trainrun: root cause: host h1 was lost: its connection ended, or answered no more\n");
  EXPECT_HAS(result.output, "restart 1 of 1 in 0.5 s, from the last checkpoint, with 2 ranks (4 before)\n");
  EXPECT_HAS(result.output, "code 0\n");
  EXPECT_HAS(result.output, "left on 1: 0\n");
  EXPECT_EQ(final_hash("one"), final_hash("cut"));
}

TEST_F(HostFaults, AHostThatIsBackIsTakenBack) {
  auto result =
      on_hosts(2,
               beside("run", "ip link set port1 down; sleep 10; ip link set port1 up") +
                   "at 0 $trainrun --nnodes 1:2 --hosts h0:2,h1:2 --network eth0 --max-restarts 1 --deadline "
                   "12 --grow-after 1 --timeout 35 c.json --train.steps=1000000 --log.every=1000\n"
                   "echo code $?\n" +
                   count_left(1),
               100);
  EXPECT_HAS(result.output, "restart 1 of 1 in 0.5 s, from the last checkpoint, with 2 ranks (4 before)\n");
  EXPECT_HAS(result.output,
             "trainrun: 2 of 4 ranks, and others can be had again: finishing the step and saving, to go on "
             "with 4 ranks\n");
  EXPECT_HAS(result.output, "trainrun: goes on with 4 ranks (2 before)\n");
  EXPECT_HAS(result.output, "trainrun: stopped by --timeout 35 s, saved");
  EXPECT_HAS(result.output, "code 80\n");
  EXPECT_HAS(result.output, "left on 1: 0\n");
}

// No file is written, from the first step to the stop: two hosts, one, both.
TEST_F(HostFaults, AHostThatIsBackGetsTheStateFromMemory) {
  auto result = on_hosts(
      2,
      beside_memory("sleep 1; ip link set port1 down; sleep 10; ip link set port1 up") +
          "at 0 $trainrun --nnodes 1:2 --hosts h0:2,h1:2 --network eth0 --max-restarts 1 --deadline 12 "
          "--grow-after 1 --timeout 35 c.json --train.steps=1000000 --log.every=1000 "
          "--checkpoint.every=1000000 --checkpoint.memory_every=50\n"
          "echo code $?\n" +
          count_left(1),
      100);
  EXPECT_HAS(result.output, "restart 1 of 1 in 0.5 s, from memory (step ");
  EXPECT_HAS(result.output, "; kept in memory\n");
  EXPECT_HAS(result.output, "trainrun: goes on with 4 ranks (2 before)\n");
  EXPECT_HAS(result.output, "code 80\n");
  EXPECT_EQ(steps_saved("run").size(), 1u) << "the stop's own";
  EXPECT_EQ(steps_saved("run").back(), last_step("run"));
}

TEST_F(HostFaults, ASpareHostTakesThePlaceOfALostOne) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=1500", "--log.every=1000"});
  auto result =
      on_hosts(3,
               beside("spare", "ip link set port1 down") +
                   "at 0 $trainrun --nnodes 2 --hosts h0:2,h1:2,h2:2 --network eth0 --max-restarts 1 "
                   "--deadline 12 --name=spare c.json --train.steps=1500 --log.every=1000\n"
                   "echo code $?\n" +
                   count_left(2),
               100);
  EXPECT_HAS(result.output, "trainrun: root cause: host h1 was lost");
  EXPECT_HAS(result.output, "restart 1 of 1 in 0.5 s, from the last checkpoint, with 4 ranks\n");
  EXPECT_HAS(result.output, "code 0\n");
  EXPECT_EQ(final_hash("one"), final_hash("spare"));
}

// A host whose ranks run a tenth of the time.
TEST_F(HostFaults, ASlowHostIsLeftOutByRule) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=1200", "--log.every=1000"});
  auto result = on_hosts(
      2,
      "echo 'for i in $(seq 1500); do kill -STOP $pids; pids=$(pgrep -f trainrun.worker); sleep 0.045; "
      "kill -CONT $pids; sleep 0.005; done' > slow.sh\n" +
          beside_memory("at 1 bash $PWD/slow.sh 2>/dev/null") +
          "at 0 $trainrun --nnodes 1:2 --hosts h0:1,h1:1 --network eth0 --slow-host 2 --name=slow c.json "
          "--checkpoint.every=1000000 --checkpoint.memory_every=50 "
          "--train.steps=1200 --log.every=1000\n"
          "echo code $?\n",
      100);
  EXPECT_HAS(result.output, "trainrun: host h1 takes ");
  EXPECT_HAS(
      result.output,
      " times as long as the others (--slow-host 2): finishing the step and saving, to go on with 1 rank\n");
  EXPECT_HAS(result.output, "; kept in memory\n");
  EXPECT_HAS(result.output, "trainrun: goes on with 1 rank (2 before)\n");
  EXPECT_HAS(result.output, "resumed from memory, /dev/shm/lockstep-memory.");
  EXPECT_HAS(result.output, "code 0\n");
  EXPECT_EQ(final_hash("one"), final_hash("slow"));
}

// Each host has its own /dev/shm, with the files of its ranks and of those of the host before it.
TEST_F(HostFaults, ALostRankGoesOnFromTheMemoryOfItsHosts) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=30"});
  for (int hosts : {2, 3}) {
    const std::string name = str("memory", hosts);
    std::string list, left;
    for (int host = 0; host < hosts; ++host) {
      list += str(host ? "," : "", "h", host, ":", host == 1 ? 2 : 1);
      left += str("echo in memory of ", host, ": $(at ", host,
                  " bash -c 'ls /dev/shm | grep -c lockstep-memory')\n");
    }
    auto result =
        on_hosts(hosts, "at 0 env LOCKSTEP_FAULT=kill:rank=1,step=23 $trainrun --hosts " + list +
                            " --network eth0 --max-restarts 1 --name=" + name +
                            " c.json --train.steps=30 --checkpoint.every=1000 --checkpoint.memory_every=4 "
                            "--checkpoint.async=false\n" +
                            left);
    EXPECT_HAS(result.output, "root cause: rank 1 on h1 died: SIGKILL (9)");
    EXPECT_HAS(result.output, "restart 1 of 1 in 0.5 s, from memory (step 20), with ");
    EXPECT_HAS(result.output, "resumed from memory, /dev/shm/lockstep-memory.");
    EXPECT_HAS(result.output, "/step-20 (step 20, state ");
    for (int host = 0; host < hosts; ++host) EXPECT_HAS(result.output, str("in memory of ", host, ": 0\n"));
    EXPECT_EQ(final_hash("one"), final_hash(name));
  }
}

TEST_F(HostFaults, ALostHostIsInTheMemoryOfTheNext) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=1000", "--log.every=1000"});
  auto result = on_hosts(
      2,
      beside_memory("sleep 1; ip link set port1 down") +
          "at 0 $trainrun --nnodes 1:2 --hosts h0:2,h1:2 --network eth0 --max-restarts 1 --deadline 12 "
          "--name=cut c.json --train.steps=1000 --log.every=1000 --checkpoint.every=1000 "
          "--checkpoint.memory_every=50\n"
          "echo code $?\necho in memory: $(at 0 bash -c 'ls /dev/shm | grep -c lockstep-memory')\n",
      100);
  EXPECT_HAS(result.output,
             "trainrun: root cause: host h1 was lost: its connection ended, or answered no more\n");
  EXPECT_HAS(result.output, "from memory (step ");
  EXPECT_HAS(result.output, "with 2 ranks (4 before)\n");
  EXPECT_HAS(result.output, "resumed from memory, /dev/shm/lockstep-memory.");
  EXPECT_HAS(result.output, "code 0\n");
  EXPECT_HAS(result.output, "in memory: 0\n");
  EXPECT_EQ(final_hash("one"), final_hash("cut"));
}

TEST_F(HostFaults, AHostThatHearsAndIsNotHeardIsNamed) {
  auto result = on_hosts(
      2, beside("run", "at 1 ip route add blackhole 10.77.0.1/32") +
             "at 0 $trainrun --hosts h0:1,h1:1 --network eth0 --deadline 12 c.json --train.steps=100000 "
             "--log.every=1000\necho code $?\n");
  EXPECT_HAS(result.output,
             "trainrun: root cause: host h1 was lost: its connection ended, or answered no more\n");
  EXPECT_HAS(result.output, "code 75\n");
}

TEST_F(HostFaults, AHostThatIsNotReachedIsToldWithWhatSshSays) {
  auto result = on_hosts(1, "at 0 $trainrun --hosts h0:1,h7:1 c.json\necho code $?\n");
  EXPECT_HAS(result.output, "Could not resolve hostname h7");
  EXPECT_HAS(result.output, "look whether each host is reached without a password (ssh HOST true)");
  EXPECT_HAS(result.output, "code 75\n");
}

}  // namespace
}  // namespace lockstep::tests
