// Links between hosts that are slow, lose packets, damage them, or are cut between two hosts that the first
// one still reaches: each is named while the run goes on, no bit changes, and what is cut is left out.
#include "tests/hosts/host_run.h"

namespace lockstep::tests {
namespace {

class HostLinks : public HostRun {};

// Three hosts: all that comes from or goes to h1 is late; of h2's packets some are lost, and a bit of some is
// flipped.
TEST_F(HostLinks, SlowLossyAndDamagingLinksAreNamedAndChangeNoBit) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=150"});
  auto result = on_hosts(3,
                         "links 1 delay=4\n"
                         "links 2 loss=2 corrupt=1\n"
                         "at 0 $trainrun --hosts h0:1,h1:1,h2:1 --network eth0 --name=bad c.json "
                         "--train.steps=150\n",
                         60);
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "trainrun: the links of h1 (with h0, h2) are slow: a round trip takes ");
  EXPECT_HAS(result.output, "trainrun: the links of h2 (with h0, h1) lose packets: ");
  EXPECT_HAS(result.output, " % of ");
  EXPECT_HAS(result.output, "trainrun: packets come to h2 damaged: ");
  EXPECT_EQ(result.output.find("is cut"), std::string::npos) << result.output;
  expect_same_run("one", "bad");
}

// What h1 sends is lost: the other way nothing is said.
TEST_F(HostLinks, ALinkThatLosesInOneDirectionIsNamedWithIt) {
  auto result = on_hosts(2,
                         "links 1 loss=3 only=there\n"
                         "at 0 $trainrun --hosts h0:1,h1:1 --network eth0 --deadline 12 --timeout 7 c.json "
                         "--train.steps=100000 --log.every=1000\n",
                         60);
  EXPECT_EQ(result.code, kExitStopped) << result.output;
  EXPECT_HAS(result.output, "trainrun: the link from h1 to h0 loses packets: ");
  EXPECT_EQ(result.output.find("from h0 to h1"), std::string::npos) << result.output;
}

// Nothing goes from h1 to h2, nor back.
constexpr const char* kCut =
    "at 2 ip route add blackhole 10.77.0.2/32; at 1 ip route add blackhole 10.77.0.3/32";

// Host 0 reaches all of them, so no daemon's connection ends.
TEST_F(HostLinks, ACutBetweenTwoOfFourHostsIsNamedAndOneOfThemIsLeftOut) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=250", "--log.every=1000"});
  auto result =
      on_hosts(4,
               beside("cut", kCut) +
                   "at 0 $trainrun --nnodes 2:4 --hosts h0:1,h1:1,h2:1,h3:1 --network eth0 --deadline 5 "
                   "--max-restarts 1 --name=cut c.json --train.steps=250 --log.every=1000\necho code $?\n",
               100);
  EXPECT_HAS(result.output, "trainrun: root cause: the link between h1 and h2 is cut: no answer for ");
  EXPECT_HAS(result.output, "restart 1 of 1 in 0.5 s, from the last checkpoint, with 3 ranks (4 before)\n");
  EXPECT_HAS(result.output, "code 0\n");
  EXPECT_EQ(final_hash("one"), final_hash("cut"));
}

// No rank runs while the link is cut both ways: nothing is under way, and what h1 and h2 have to say to each
// other later never leaves their kernels.
TEST_F(HostLinks, ACutWhileNothingIsUnderWayIsNamedToo) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=250", "--log.every=1000"});
  auto result =
      on_hosts(3,
               "ranks() { for k in 1 2; do at $k pkill -$1 -f 'trainrun worker'; done; }\n" +
                   beside("cut", str("ranks STOP; sleep 0.3; ", kCut, "; ranks CONT")) +
                   "at 0 $trainrun --nnodes 2:3 --hosts h0:1,h1:1,h2:1 --network eth0 --deadline 5 "
                   "--max-restarts 1 --name=cut c.json --train.steps=250 --log.every=1000\necho code $?\n",
               100);
  EXPECT_HAS(result.output, "trainrun: root cause: the link between h1 and h2 is cut: no answer for ");
  EXPECT_HAS(result.output, "restart 1 of 1 in 0.5 s, from the last checkpoint, with 2 ranks (3 before)\n");
  EXPECT_HAS(result.output, "code 0\n");
  EXPECT_EQ(final_hash("one"), final_hash("cut"));
}

// The link is cut before the first connection: by a firewall that drops, or where there is no route.
TEST_F(HostLinks, ALinkThatIsNotThereFromTheStartIsNamed) {
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=20"});
  const struct {
    std::string name, before, after, cause;  // a command that cuts what goes to an address
  } cases[] = {
      {"drops", "ip neigh replace ", " lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
       "trainrun: root cause: the link between h1 and h2 is cut: no answer for "},
      {"no-route", "ip route add blackhole ", "/32", " (10.77.0."},
  };
  for (const auto& one : cases) {
    auto result =
        on_hosts(3,
                 str("at 1 ", one.before, "10.77.0.3", one.after, "; at 2 ", one.before, "10.77.0.2",
                     one.after, "\n") +
                     "at 0 $trainrun --nnodes 2:3 --hosts h0:1,h1:1,h2:1 --network eth0 --deadline 6 "
                     "--max-restarts 1 --name=" +
                     one.name + " c.json --train.steps=20\necho code $?\n",
                 100);
    EXPECT_HAS(result.output, one.cause);
    if (one.name == "no-route") {
      EXPECT_HAS(result.output, " cannot connect to h");
      EXPECT_HAS(result.output, "look whether routes and firewalls let each host reach each other one");
    }
    EXPECT_HAS(result.output, "restart 1 of 1 in 0.5 s, from the last checkpoint, with 2 ranks (3 before)\n");
    EXPECT_HAS(result.output, "code 0\n");
    EXPECT_EQ(final_hash("one"), final_hash(one.name));
  }
}

}  // namespace
}  // namespace lockstep::tests
