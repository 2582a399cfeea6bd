// Hosts as text: lists, files, Slurm's variables; what mpirun says; the script of a job.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "core/base/error.h"
#include "launcher/supervise/hosts/mpirun_words.h"
#include "launcher/supervise/hosts/slurm_job.h"
#include "launcher/supervise/launch/hosts.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher {
namespace {

using List = std::vector<HostRanks>;

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const UserError& error) { return error.what(); }
  return "taken";
}

TEST(LaunchHosts, AList) {
  EXPECT_EQ(read_host_list("a:4,b", 2, "--hosts"), (List{{"a", 4}, {"b", 2}}));
  EXPECT_EQ(refusal([] { read_host_list("a,,b", 1, "--hosts"); }), "--hosts: \"\" is no name of a host");
}

TEST(LaunchHosts, AFileOfOpenMpiDeepSpeedOrMpich) {
  ScratchFolder folder;
  const std::string path = folder.path("hosts");
  std::ofstream(path) << "# all\n\nn1 slots=4 max_slots=8\n n2.lan:3  # the third\nn3\n";
  EXPECT_EQ(read_host_file(path, 2), (List{{"n1", 4}, {"n2.lan", 3}, {"n3", 2}}));
  std::ofstream(path) << "n1 slots=4\nn2 cpus=3\n";
  EXPECT_EQ(refusal([&] { read_host_file(path, 1); }),
            path + ":2: \"cpus=3\" is not known; write NAME slots=N");
  std::ofstream(path) << "n1 slots=none\n";
  EXPECT_EQ(refusal([&] { read_host_file(path, 1); }), path + ":1: \"slots=none\" is no number of 1 to 4096");
  std::ofstream(path) << "# nobody\n";
  EXPECT_EQ(refusal([&] { read_host_file(path, 1); }),
            "--hostfile " + path + " names no host; give a line \"NAME slots=N\" for each");
}

TEST(LaunchHosts, RanksAreNumberedHostAfterHost) {
  const LaunchHosts hosts{.list = {{"a", 2}, {"b", 3}}, .reach = Reach::ssh};
  EXPECT_EQ(hosts.ranks(), 5);
  std::string all;
  for (int64_t rank = -1; rank < 6; ++rank) all += str(hosts.of(rank), " ");
  EXPECT_EQ(all, " a a b b b  ");
  EXPECT_EQ(hosts.without({"a"}, {}).list, (List{{"b", 3}}));
  EXPECT_EQ(hosts.without({}, {0, 3, 4}).list, (List{{"a", 1}, {"b", 1}}));
  EXPECT_EQ(hosts.without({}, {0, 1}).list, (List{{"b", 3}}));
}

TEST(LaunchHosts, NodesAsSlurmWritesThem) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(expand_node_list("n[08-10,12],gpu1"), (Names{"n08", "n09", "n10", "n12", "gpu1"}));
  EXPECT_EQ(expand_node_list("a[1-2]-ib"), (Names{"a1-ib", "a2-ib"}));
  for (const char* wrong : {"n[1-", "n[a-b]", "n]1[", "n[1][2]", "n[]", "n[1-99999999]"})
    EXPECT_EQ(refusal([&] { expand_node_list(wrong); }),
              str("\"", wrong, "\" is no list of hosts as Slurm writes it (n[1-3,5],gpu1)"));
}

TEST(LaunchHosts, AnAllocationOfSlurm) {
  unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(slurm_hosts(0), List{});
  setenv("SLURM_JOB_ID", "7", 1), setenv("SLURM_JOB_NODELIST", "n[1-3]", 1);
  EXPECT_EQ(slurm_hosts(0), (List{{"n1", 1}, {"n2", 1}, {"n3", 1}}));
  setenv("SLURM_NTASKS", "5", 1), setenv("SLURM_TASKS_PER_NODE", "2(x2),1", 1);
  EXPECT_EQ(slurm_hosts(0), (List{{"n1", 2}, {"n2", 2}, {"n3", 1}}));
  EXPECT_EQ(slurm_hosts(4), (List{{"n1", 4}, {"n2", 4}, {"n3", 4}}));
  setenv("SLURM_TASKS_PER_NODE", "two", 1);
  EXPECT_EQ(refusal([] { slurm_hosts(0); }),
            "environment: SLURM_TASKS_PER_NODE is \"two\"; it must be as Slurm writes it, as in 2(x3),1");
  for (const char* name : {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE"})
    unsetenv(name);
}

TEST(MpirunWords, SayWhichRankEndedHow) {
  const std::string rule(74, '-');
  MpirunWords killed, failed, lost, none;
  for (const auto& line :
       {rule, std::string("mpirun noticed that process rank 2 with PID 71 on node h1 exited on signal 9"),
        std::string("(Killed)."), rule})
    EXPECT_TRUE(killed.take(line));
  ASSERT_EQ(killed.meaning().ends.size(), 1u);
  EXPECT_EQ(killed.meaning().ends[0].rank, 2);
  EXPECT_EQ(killed.meaning().ends[0].wait_status, 9);
  for (const auto& line :
       {rule, std::string("  Process name: [[25461,1],3]"), std::string("  Exit code:    75"), rule})
    failed.take(line);
  ASSERT_EQ(failed.meaning().ends.size(), 1u);
  EXPECT_EQ(failed.meaning().ends[0].rank, 3);
  EXPECT_EQ(failed.meaning().ends[0].wait_status, 75 << 8);
  for (const auto& line : {rule, std::string("ORTE has lost communication with a remote daemon."),
                           std::string(""), std::string("  HNP daemon   : [[48725,0],0] on node h0"),
                           std::string("  Remote daemon: [[48725,0],2] on node n2"), rule})
    lost.take(line);
  EXPECT_EQ(lost.meaning().lost_hosts, std::vector<std::string>{"n2"});
  EXPECT_FALSE(none.take("ssh: Could not resolve hostname h7"));
  EXPECT_TRUE(none.take("[h0:00018] 2 more processes have sent help message help-mpi.txt"));
  EXPECT_TRUE(none.meaning().ends.empty() && none.shown(10).empty());
}

TEST(MpirunWords, SayWhichHostDoesNotReachWhich) {
  MpirunWords words;
  words.take_rank_line("step 3: from h1 to: h2 and back");
  EXPECT_TRUE(words.meaning().unreached.empty());
  words.take_rank_line(
      "[[48739,1],1][btl_tcp_endpoint.c:793:mca_btl_tcp_endpoint_start_connect] from h1 to: h2 Unable to "
      "connect to "
      "the peer 10.77.0.3 on port 1025: No route to host\n");
  ASSERT_EQ(words.meaning().unreached.size(), 1u);
  EXPECT_EQ(words.meaning().unreached[0].from, "h1");
  EXPECT_EQ(words.meaning().unreached[0].to, "h2");
  EXPECT_EQ(words.meaning().unreached[0].why, "10.77.0.3, port 1025: No route to host");
}

TEST(SlurmJob, TheScript) {
  EXPECT_EQ(slurm_script({.name = "big",
                          .nodes = 2,
                          .ranks = 4,
                          .grace = 12.5,
                          .options = " --partition=gpu -t 8:00:00",
                          .words = {"/bin/trainrun", "--name=a b", "c.json"},
                          .folder = "/home/me"}),
            "#!/bin/bash\n"
            "#SBATCH --job-name=big\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --requeue\n"
            "#SBATCH --open-mode=append\n#SBATCH --output=runs/big.slurm-%j.log\n#SBATCH --signal=B:TERM@43\n"
            "#SBATCH --partition=gpu\n#SBATCH -t 8:00:00\n"
            "cd /home/me || exit 2\n/bin/trainrun '--name=a b' c.json &\nrun=$!\ntrap 'kill -TERM $run "
            "2>/dev/null' TERM\n"
            "wait $run; code=$?\nwhile kill -0 $run 2>/dev/null; do wait $run; code=$?; done\n"
            "# 80: stopped on request, saved. Queued again, the same command goes on from there.\n"
            "[ $code -ne 80 ] || scontrol requeue $SLURM_JOB_ID\nexit $code\n");
}

TEST(SlurmJob, AsksForGpusAndTimeWhereTheUserDoesNot) {
  SlurmJob job{.name = "a",
               .nodes = 2,
               .ranks = 8,
               .gpus = true,
               .minutes = 130,
               .options = "",
               .words = {"t"},
               .folder = "/"};
  const auto has = [&](const std::string& line) {
    return slurm_script(job).find(line + "\n") != std::string::npos;
  };
  EXPECT_TRUE(has("#SBATCH --gpus-per-node=8"));
  EXPECT_TRUE(has("#SBATCH --time=2:10:00"));
  for (const char* own :
       {"--gres=gpu:8", "--gpus=16", "-G 16", "--gpus-per-task=1", "--tres-per-task=gres/gpu=1"}) {
    job.options = own;
    EXPECT_FALSE(has("#SBATCH --gpus-per-node=8")) << own;
    EXPECT_TRUE(has(str("#SBATCH ", own)));
    EXPECT_TRUE(has("#SBATCH --time=2:10:00"));
  }
  for (const char* own : {"--time=8:00:00", "-t 8:00:00"}) {
    job.options = own;
    EXPECT_FALSE(has("#SBATCH --time=2:10:00")) << own;
    EXPECT_TRUE(has("#SBATCH --gpus-per-node=8"));
  }
  job.options.clear(), job.gpus = false, job.minutes = 0;
  EXPECT_EQ(slurm_script(job).find("--gpus"), std::string::npos);
  EXPECT_EQ(slurm_script(job).find("--time"), std::string::npos);
}

TEST(SlurmJob, AnArrayOfOneRunIsRefused) {
  for (const char* option : {"--array=1-4", "-a 1-4"}) {
    SlurmJob job{.name = "big", .nodes = 1, .ranks = 1, .options = str(" ", option), .words = {"t"}};
    try {
      slurm_script(job);
      FAIL() << option << " was taken";
    } catch (const UserError& error) {
      EXPECT_EQ(
          std::string(error.what()),
          str("--slurm: ", option,
              " makes a job array, whose tasks would all be this one run; print the script (--slurm ... "
              "--dry-run), give trainrun in it --name=run-$SLURM_ARRAY_TASK_ID and what differs between "
              "the tasks, as --train.seed=$SLURM_ARRAY_TASK_ID, and submit that: sbatch ",
              option, " SCRIPT"));
    }
  }
}

}  // namespace
}  // namespace lockstep::launcher
