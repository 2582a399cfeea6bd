// Runs whose ranks are on several hosts, as mesh.ranks_per_node says: over MPI, and on a device with memory
// of its own, with the bits of one rank.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Hosts : public RealRun {
 protected:
  void on_hosts(const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words{
        "--nproc", "4", "--name=" + name, "c.json", "--train.steps=4", "--mesh.ranks_per_node=2"};
    words.insert(words.end(), more.begin(), more.end());
    train(words);
    expect_same_run("one", name);
    EXPECT_HAS(RunRecord("runs/" + name).log(0),
               "gradients are exchanged inside 2 hosts first, then across, by 2 data ranks of each\n");
    for (auto& row : metrics(name))
      EXPECT_GT(std::stod(row["exposed_inside_hosts_ms"]) + std::stod(row["exposed_across_hosts_ms"]), 0)
          << name;
  }
};

TEST_F(Hosts, TheExchangeGoesInsideFirstWithTheSameBits) {
  write_tiny();
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=4"});
  on_hosts("ddp", {});
  on_hosts("zero1", {"--mesh.dim_names=[dp_shard]", "--mesh.zero=1"});
  on_hosts("zero3", {"--mesh.dim_names=[dp_shard]"});
  on_hosts("hsdp", {"--mesh.shape=[2,2]", "--mesh.dim_names=[dp_replicate,dp_shard]"});
}

TEST_F(Hosts, OnADeviceWithItsOwnMemory) {
  write_tiny();
  train({"--nproc", "1", "--name=one", "c.json", "--train.steps=4"});
  on_hosts("far", {"--train.device=plugin:" FAR_DEVICE});
}

TEST_F(Hosts, ThePlanTellsIt) {
  write_tiny();
  auto exchange = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"plan", "--nproc", "8", "c.json", "--train.device=cpu", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << result.output;
    return Json::parse(result.output)["step"]["exchange"];
  };
  EXPECT_EQ(exchange({}), nullptr);
  EXPECT_EQ(exchange({"--mesh.ranks_per_node=4"}),
            "inside 2 hosts first, then across, by 4 data ranks of each");
  EXPECT_EQ(exchange({"--mesh.ranks_per_node=8"}), nullptr);
  EXPECT_EQ(exchange({"--mesh.ranks_per_node=2", "--mesh.dim_names=[dp_shard]", "--batch.global=12",
                      "--batch.micro=1", "--batch.lanes=4"}),
            "flat: 3 micro-batches of a lane are not on one host of 2 data ranks");
  EXPECT_EQ(exchange({"--mesh.ranks_per_node=3"}),
            "flat: hosts of 3 ranks do not have several neighbouring data ranks each, of 8");
  EXPECT_EQ(exchange({"--mesh.ranks_per_node=4", "--train.numerics=free"}),
            "flat: the library's own reductions");
  EXPECT_EQ(exchange({"--mesh.ranks_per_node=16"}), nullptr);
}

}  // namespace
}  // namespace lockstep::tests
