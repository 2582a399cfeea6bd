// Flags and keys of a run on several hosts, and those of other launchers: what they become, and what is
// refused.
#include <sys/stat.h>

#include "tests/process/commands/trainrun_fixture.h"

namespace lockstep {
namespace {

TEST_F(Trainrun, FlagsOfOtherLaunchersAreToldOrHarmless) {
  auto refused = [&](std::vector<std::string> words, const std::string& line) {
    words.push_back("c.json");
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_EQ(result.output, "trainrun: " + line + "\n");
  };
  refused(
      {"--nnodes", "2"},
      "--nnodes 2 does not say where the hosts are; name them with --hosts a,b or --hostfile FILE, give the "
      "same command on each with --node-rank K --master-addr HOST, or start it inside a Slurm job (--slurm "
      "submits one)");
  refused({"--num-machines", "2", "--machine-rank", "2", "--main-process-ip", "h0"},
          "--node-rank 2 is not below --nnodes 2");
  refused({"--nnodes", "4:2"}, "--nnodes is \"4:2\"; give a number of hosts, 1 or more, or MIN:MAX");
  refused({"--node_rank=1"}, "--node-rank 1 is not below --nnodes 1");
  refused({"--nnodes", "2", "--node-rank", "1"},
          "--nnodes 2 with --node-rank, and without --master-addr or --rdzv-endpoint: on each host the same "
          "command "
          "is given, with --node-rank 0 to 1 and --master-addr HOST, which is node 0");
  refused({"--nnodes", "2", "--rdzv-endpoint=host:29400"},
          "--nnodes 2 with --master-addr or --rdzv-endpoint, and without --node-rank: on each host the same "
          "command "
          "is given, with --node-rank 0 to 1 and --master-addr HOST, which is node 0");
  refused({"--nnodes", "1:2", "--node-rank", "0", "--master-addr", "a"},
          "--nnodes 1:2: a run whose hosts each have this command needs all of them; give --nnodes 2, or "
          "name the "
          "hosts with --hosts or --hostfile, of which those that are lost are left out");
  refused({"--nnodes", "2", "--rdzv-endpoint=host:x"},
          "--rdzv-endpoint is \"host:x\"; give HOST:PORT, with a port of 1 to 65535 (default 29500)");
  refused({"--rdzv-endpoint=a:1", "--master-addr=b"},
          "--rdzv-endpoint a:1 and --master-addr b are both given; they say the same: leave one out");
  refused({"--hosts=a", "--hostfile=b"}, "--hosts and --hostfile are both given; leave one out");
  refused({"--hosts=a,b", "--node-rank=0"},
          "--hosts names hosts that one command reaches, and --node-rank, --master-addr and --rdzv-endpoint "
          "are for "
          "a command on each host; leave one of the two out");
  refused({"--hosts=a,b", "--nnodes=3"},
          "--nnodes 3, and --hosts has 2 hosts; ask for as many, or add hosts");
  refused({"--hosts=a:0"},
          "--hosts: \"a:0\" has no number of ranks of 1 to 4096 after the colon; write NAME:N");
  refused({"--simulate=2", "--hosts=a,b"},
          "--simulate 2 runs the ranks as threads of this process; leave --hosts, --hostfile, --node-rank "
          "and --slurm "
          "out, or use --nproc");
  refused({"--hosts=a,a"}, "--hosts: a is given twice; give it once, with all its ranks");
  refused({"--hosts=-x"}, "--hosts: \"-x\" is no name of a host");
  refused({"--hostfile", "hosts"},
          "--hostfile hosts cannot be read: No such file or directory; give a file with a line \"NAME "
          "slots=N\" for "
          "each host");
  ASSERT_EQ(mkfifo("pipe", 0600), 0);  // never waited for, and a device never read to its end
  refused({"--hostfile", "pipe"},
          "--hostfile pipe cannot be read: it is a FIFO, not a plain file; give a file with a line \"NAME "
          "slots=N\" for each host");
  refused({"--hostfile", "/dev/zero"},
          "--hostfile /dev/zero cannot be read: it is a device, not a plain file; give a file with a line "
          "\"NAME slots=N\" for each host");
  refused(
      {"--rdzv-conf=timeout=3"},
      "--rdzv-conf timeout=3: node 0's mpirun is reached at --rdzv-endpoint HOST:PORT, with --node-rank K on "
      "each host; leave it out");
  refused(
      {"--redirects", "3"},
      "--redirects 3: every rank's output is kept in runs/NAME/logs/attempt-K/rank-R.log, and shown as --tee "
      "says; leave it out");
  refused({"--tee", "1"},
          "--tee 1: a rank's two streams go to one log, so both are shown or neither: give 3 or 0, for all "
          "ranks "
          "or as RANK:3,... for some");
  refused({"--nproc=3:2"}, "--nproc is \"3:2\"; give MIN:MAX with 1 <= MIN <= MAX, as in 2:8");
  refused({"--simulate=2", "--timeout=5"},
          "--max-restarts, --min-nproc and --timeout are about processes, and the ranks of --simulate are "
          "threads "
          "of one; leave them out, or use --nproc");
  refused({"--num_gpus", "2"}, "--num_gpus 2: use --nproc N, the number of ranks of a host");
  refused({"--ntasks-per-node=4"}, "--ntasks-per-node 4: use --nproc N, the number of ranks of a host");
  refused({"--world_size", "8"},
          "--world_size 8: the ranks of all hosts are --nproc N, those of a host, times --nnodes");
  refused({"--local_rank=0"},
          "--local_rank 0: trainrun starts the ranks and gives each its number in LOCAL_RANK; leave it out");
  for (auto words : std::vector<std::vector<std::string>>{
           {"--standalone", "--nnodes", "1", "--nproc-per-node", "2"},
           {"--nnodes=1:1", "--node-rank=0", "-n", "2"},
           {"--nodes", "1", "-n", "2"},
           {"-np", "2", "--oversubscribe", "--bind-to", "none"},
           {"--num-processes=2"},
           {"--nproc=1:2", "--max-restarts=3/1h", "--tee=3", "--env=A=b"}}) {
    words.insert(words.end(), {"c.json", "--dry-run"});
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "WORLD_SIZE=2 ");
  }
  // The arguments of a program are its own.
  scratch_.write("mine.sh", "#!/bin/sh\necho \"args: $@\"\n");
  std::filesystem::permissions("mine.sh", std::filesystem::perms::owner_all);
  auto own = trainrun({"--standalone", "./mine.sh", "--nnodes", "2", "--standalone"});
  EXPECT_EQ(own.code, kExitOk) << own.output;
  EXPECT_HAS(own.output, "args: --nnodes 2 --standalone");
}

// Before anything is started: interfaces, ports, addresses and variables of a run on several hosts.
TEST_F(Trainrun, DryRunShowsNetworksPortsAndAddresses) {
  const auto said = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"c.json", "--dry-run"});
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << result.output;
    return result.output;
  };
  const std::string named = said({"--hosts", "a:2,b:2", "--network", "eth7", "--env=A=b"});
  for (const char* part :
       {"OMPI_MCA_btl_tcp_if_include=eth7 ", "OMPI_MCA_oob_tcp_if_include=eth7 ", "NCCL_SOCKET_IFNAME=eth7 ",
        "MASTER_ADDR=a ", "MASTER_PORT=29500 ", "LOCKSTEP_HOSTS=2 ", "A=b ",
        "mpirun \\\n  -n 4 \\\n  --hostfile ", "\n  --mca plm rsh ", "\n  -x MASTER_ADDR "})
    EXPECT_HAS(named, part);
  const std::string agents = said({"--nnodes=2", "--nproc=3", "--node-rank=0", "--rdzv-endpoint",
                                   "10.1.2.3:29411", "--network=10.1.0.0/16"});
  for (const char* part :
       {"OMPI_MCA_btl_tcp_if_include=10.1.0.0/16 ", "MASTER_ADDR=10.1.2.3 ", "MASTER_PORT=29411 ",
        "mpirun \\\n  -n 6 ", "--mca oob_tcp_static_ipv4_ports 29411 ", "hand-over "})
    EXPECT_HAS(agents, part);
  EXPECT_EQ(agents.find("NCCL_SOCKET_IFNAME"), std::string::npos) << "NCCL takes no subnets";
  const std::vector<std::string> keys{"--hosts=a:2,b:2", "--launch.network=eth5",
                                      "--launch.ports=30000-30099"};
  const std::string by_config = said(keys);
  for (const char* part :
       {"OMPI_MCA_btl_tcp_if_include=eth5 ", "OMPI_MCA_btl_tcp_port_min_v4=30001 ",
        "OMPI_MCA_btl_tcp_port_range_v4=98 ", "OMPI_MCA_oob_tcp_dynamic_ipv4_ports=30000 "})
    EXPECT_HAS(by_config, part);
  const std::string by_flags = said({keys[0], keys[1], keys[2], "--network=eth7", "--ports", "31000:31009"});
  EXPECT_HAS(by_flags, "OMPI_MCA_btl_tcp_if_include=eth7 ");
  EXPECT_HAS(by_flags, "OMPI_MCA_oob_tcp_dynamic_ipv4_ports=31000 ");
  const auto few = trainrun({"--hosts=a:1,b:3", "--ports=31000-31002", "c.json", "--dry-run"});
  EXPECT_EQ(few.code, kExitUser) << few.output;
  EXPECT_HAS(few.output,
             "--ports 31000-31002 (launch.ports) are 3, and b needs 4: one for each of its ranks and one for "
             "its daemon");
  for (const char* wrong : {"80-90", "30000-", "30999-30000", "1024-70000", "30000-x"}) {
    const std::string rule = str("is \"", wrong, "\"; give FIRST-LAST, of 1024 to 65535, as in 30000-30999");
    for (const char* key : {"--ports", "--launch.ports"}) {
      const auto result = trainrun({"--hosts=a,b", str(key, "=", wrong), "c.json", "--dry-run"});
      EXPECT_EQ(result.code, kExitUser) << result.output;
      EXPECT_HAS(result.output, key + (key[2] == 'l' ? 2 : 0) + (" " + rule));
    }
  }
}

}  // namespace
}  // namespace lockstep
