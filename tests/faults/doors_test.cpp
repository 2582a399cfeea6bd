// Beside the catalogue: ports, other launchers, hangups, odd surroundings of trainrun.
#include <set>

#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

// Local addresses (in /proc's hexadecimal, with the port) on which the processes listen; network namespaces
// are those of the first.
std::vector<std::string> listening(const std::vector<int>& pids) {
  std::set<std::string> inodes;
  for (int pid : pids) {
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(str("/proc/", pid, "/fd"), gone)) {
      const std::string to = std::filesystem::read_symlink(entry.path(), gone);
      if (to.rfind("socket:[", 0) == 0) inodes.insert(to.substr(8, to.size() - 9));
    }
  }
  std::vector<std::string> out;
  for (const char* family : {"tcp", "tcp6", "udp", "udp6"}) {
    std::ifstream file(str("/proc/", pids[0], "/net/", family));
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
          inode;
      const bool waits = state == "0A" || (family[0] == 'u' && state == "07");
      if (waits && inodes.count(inode)) out.push_back(str(family, " ", local));
    }
  }
  return out;
}

TEST_F(FaultRun, Row41NoRankListens) {
  write_tiny();
  auto process = start({"--nproc", "4", "--train.device=cpu", "--train.steps=100000", "c.json"});
  ASSERT_TRUE(until(60, [&] { return last_step("run") >= 25; })) << process->output();
  const auto ranks = RunRecord("runs/run").pids(4);
  EXPECT_EQ(listening(ranks), std::vector<std::string>{});
  const auto own = listening({process->pid()});
  EXPECT_EQ(own.size(), 1u);
  for (const auto& address : own) EXPECT_EQ(address.substr(0, 13), "tcp 0100007F:") << address;  // 127.0.0.1
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(20), kExitStopped);
  // The check sees a rank that listens: TCP on request.
  process = start({"--nproc", "2", "--train.device=cpu", "--train.steps=100000", "--name=tcp", "c.json"},
                  {{"OMPI_MCA_btl", "self,tcp"}});
  ASSERT_TRUE(until(60, [&] { return last_step("tcp") >= 5; })) << process->output();
  EXPECT_GE(listening(RunRecord("runs/tcp").pids(2)).size(), 2u);
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(20), kExitStopped);
  row({.fault = "who listens while 4 ranks train on one host",
       .seen =
           "no rank; trainrun on 127.0.0.1, one port (PMIx), for ranks that know a name of 128 random bits",
       .code = "80"});
}

TEST_F(FaultRun, Row42NohupsHangupIsIgnored) {
  write_tiny();
  for (int nproc : {1, 2}) {
    const std::string name = str("run", nproc);
    signal(SIGHUP, SIG_IGN);  // as nohup leaves it
    auto process = start({"--nproc", str(nproc), "--train.device=cpu", "--name=" + name, "c.json"});
    signal(SIGHUP, SIG_DFL);
    ASSERT_TRUE(until(60, [&] { return last_step(name) >= 5; })) << process->output();
    for (int pid : RunRecord("runs/" + name).pids(nproc)) kill(pid, SIGHUP);
    kill(process->pid(), SIGHUP);
    EXPECT_EQ(process->wait(60), kExitOk) << process->output();
  }
  row({.fault = "nohup trainrun, then SIGHUP to trainrun and its ranks",
       .seen = "nothing",
       .code = "0",
       .lost = "0"});
}

TEST_F(FaultRun, Row43OddSurroundings) {
  write_tiny();
  const std::vector<std::string> words = {"--nproc", "2", "--train.device=cpu", "--train.steps=20", "c.json"};
  auto with = [&](const char* name, Variables variables) {
    auto all = words;
    all.push_back(str("--name=", name));
    auto result = trainrun(all, std::move(variables));
    EXPECT_EQ(result.code, kExitOk) << name << ": " << result.output;
  };
  with("whole", {});
  auto tmp = trainrun({"--nproc", "2", "--train.device=cpu", "--train.steps=20", "--name=tmp", "c.json"},
                      {{"TMPDIR", "/proc"}});
  // MPI needs none; a compiler that is called does.
  EXPECT_TRUE(
      tmp.code == kExitOk ||
      (tmp.code == kExitUser && tmp.output.find("set TMPDIR to a folder with space") != std::string::npos))
      << tmp.output;
  if (std::system("command -v setpriv >/dev/null") == 0 && geteuid() == 0) {
    // A folder on PATH that this user may not enter, as after su, which keeps root's PATH.
    std::filesystem::create_directories("secret");
    std::filesystem::create_directories("work");
    std::filesystem::permissions("secret", std::filesystem::perms::none);
    std::filesystem::permissions(".", std::filesystem::perms(0755));
    for (const char* name : {"work/c.json", "work/tokens.bin"})
      std::filesystem::copy_file(std::string(name).substr(5), name);
    ASSERT_EQ(std::system("chown -R 65534:65534 work && chmod 755 ."), 0);
    const std::string inside =
        str("cd work && PATH=", scratch_.path("secret"), ":/usr/bin:/bin HOME=", scratch_.path("work"),
            " setpriv --reuid 65534 --clear-groups ", TRAINRUN,
            " --nproc 2 --train.device=cpu --train.steps=5 c.json >out 2>&1");
    const int status = std::system(inside.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitOk) << file_text("work/out");
  }
  const auto few = Process({"/bin/sh", "-c",
                            str("ulimit -n 20; exec ", TRAINRUN,
                                " --nproc 8 c.json --train.device=cpu --batch.global=16 --name=few")},
                           scratch_.path("out"), {{"LOCKSTEP_CACHE", KERNEL_CACHE}})
                       .wait(20);
  EXPECT_EQ(few, kExitUser) << file_text(scratch_.path("out"));
  EXPECT_HAS(file_text(scratch_.path("out")), "raise ulimit -n");
  row({.fault = "a folder on PATH that one may not enter; TMPDIR that cannot be written; ulimit -n 20 with 8 "
                "ranks",
       .seen = "nothing; nothing; ulimit -n is 20, and trainrun opens 64 files for 8 ranks; raise ulimit "
               "-n, or start fewer ranks",
       .code = "0; 0; 2",
       .detected = "at the start"});
}

TEST_F(FaultRun, Row44RanksThatCannotTalk) {
  write_tiny();
  auto refused = [&](Variables variables, const std::string& part) {
    auto result = trainrun({"--nproc", "2", "--train.device=cpu", "c.json"}, variables);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, "each of them would start the whole run");
    Process program({OWN_PROGRAM, "tokens.bin", "runs/own", "5"}, scratch_.path("own"), variables);
    EXPECT_EQ(program.wait(20), kExitUser) << program.output();
    EXPECT_HAS(program.output(), part);
    EXPECT_HAS(program.output(), "Start them with trainrun --nproc ");
    EXPECT_FALSE(std::filesystem::exists("runs/own"));
  };
  refused({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}},
          "this process is rank 1 of 2 by RANK and WORLD_SIZE, and nothing says how the ranks talk (no MPI, "
          "no PMI)");
  refused({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_NTASKS", "2"}},
          "this process is task 0 of 2 by SLURM_PROCID and SLURM_STEP_NUM_TASKS, and nothing says how the "
          "ranks talk");
  // A batch script of Slurm is no step: it starts the ranks itself.
  Process batch({OWN_PROGRAM, "tokens.bin", "runs/own", "5"}, scratch_.path("own"),
                {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"LOCKSTEP_CACHE", KERNEL_CACHE}});
  EXPECT_EQ(batch.wait(60), kExitOk) << batch.output();
  train({"--nproc", "2", "--train.device=cpu", "--train.steps=5", "c.json"},
        {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "here"}});
  row({.fault =
           "RANK=1 WORLD_SIZE=2 without MASTER_ADDR, or tasks of srun --mpi=none, for trainrun and for a "
           "program of one's own",
       .seen = "this process is rank 1 of 2 by RANK and WORLD_SIZE, and nothing says how the ranks talk (no "
               "MPI, no PMI): each would be a "
               "run of its own",
       .code = "2",
       .detected = "at the start",
       .recovered = "trainrun --nproc 2"});
}

TEST_F(FaultRun, Row45RestartsWithoutCheckpoints) {
  write_tiny();
  const std::vector<std::string> words = {"--nproc",
                                          "2",
                                          "--train.device=cpu",
                                          "--checkpoint.every=0",
                                          "--max-restarts",
                                          "2",
                                          "--restart-delay",
                                          "0.1",
                                          "c.json",
                                          "--checkpoint.async=false"};
  train({"--nproc", "1", "--train.device=cpu", "--name=whole", "c.json"});
  auto result = trainrun(words, {{"LOCKSTEP_FAULT", "kill:rank=1,step=93"}});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output,
             "checkpoint.every is 0, and --max-restarts goes on from checkpoints: saving every 5 steps; set "
             "checkpoint.every to choose");
  EXPECT_HAS(result.output, "/ckpt/step-90 (step 90,") << "not from the start";
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  row({.fault = "--max-restarts with checkpoint.every 0 (the default), a rank killed in step 93 of 100",
       .seen = "checkpoint.every is 0, and --max-restarts goes on from checkpoints: saving every 5 steps; "
               "set checkpoint.every to choose",
       .code = "0",
       .recovered = "by itself, from step 90",
       .lost = "<= a twentieth of the run",
       .same_bits = "yes"});
}

}  // namespace
}  // namespace lockstep::tests
