// trainrun's command line, end to end except for the training itself.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/process/trainrun_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "missing: " << (part) << "\nin:\n" << (text)

class Trainrun : public ::testing::Test {
 protected:
  struct Result {
    int code;
    std::string output;
  };
  Result trainrun(std::vector<std::string> words) {
    words.insert(words.begin(), TRAINRUN);
    Process process(words, scratch_.path("out"));
    int code = process.wait(20);
    return {code, process.output()};
  }
  // Runs are made under the current folder.
  void SetUp() override {
    previous_ = std::filesystem::current_path();
    std::filesystem::current_path(scratch_.path(""));
    scratch_.write(
        "c.json",
        R"({"name": "first", "data": {"paths": ["a"]}, "train": {"steps": 4}, "log": {"every": 2}})");
  }
  void TearDown() override { std::filesystem::current_path(previous_); }
  ScratchFolder scratch_;
  std::filesystem::path previous_;
};

TEST_F(Trainrun, ACommandWithoutASubcommandRuns) {
  auto result = trainrun({"--nproc", "3", "c.json", "--optim.lr=0.25"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(file_text(str("runs/first/seen-", rank)), "0.25 of 3\n");
  EXPECT_HAS(result.output, "step 2/4  loss 1.000");
  EXPECT_HAS(result.output, "step 4/4  loss 1.000");
  EXPECT_EQ(result.output.find("\033"), std::string::npos);
  EXPECT_EQ(result.output.find("trainrun:"), std::string::npos) << result.output;
}

// What a run would refuse at once is told without one; data may be on other hosts alone, so it is told and no
// more.
TEST_F(Trainrun, ADryRunLooksAtDeviceAndData) {
  auto one = trainrun({"--nproc", "2", "c.json", "--dry-run", "--train.device=cuda:0"});
  EXPECT_EQ(one.code, kExitUser) << one.output;
  EXPECT_HAS(one.output,
             "train.device \"cuda:0\" names one device, and this host has 2 ranks; write \"cuda\": rank i "
             "takes device i");
  auto gone = trainrun({"--nproc", "2", "c.json", "--dry-run", "--data.paths=[\"/nope/x.txt\"]"});
  EXPECT_EQ(gone.code, kExitOk) << gone.output;
  EXPECT_HAS(gone.output, "trainrun: data: not there: ");
  EXPECT_HAS(gone.output, "/nope/x.txt");
  auto many = trainrun({"c.json", "--dry-run", "--train.device=cuda:4095"});
  EXPECT_EQ(many.code, kExitOk) << many.output;
  EXPECT_HAS(many.output, "trainrun: train.device \"cuda:4095\": not here: ");
  scratch_.write("a", "some text");
  auto there = trainrun({"--nproc", "2", "c.json", "--dry-run"});
  EXPECT_EQ(there.output.find("trainrun: data"), std::string::npos) << there.output;
}

// A slip in the command, a word of others that is a section here, a config or a program that is not there.
TEST_F(Trainrun, SlipsAreAnswered) {
  const std::pair<std::vector<std::string>, const char*> slips[] = {
      {{"plna", "c.json"}, "there is no command \"plna\"; did you mean trainrun plan?"},
      {{"import_hf", "folder"}, "there is no command \"import_hf\"; did you mean trainrun import-hf?"},
      {{"gen", "runs/first"}, "there is no command \"gen\"; did you mean trainrun generate?"},
      {{"mlp"}, "cannot read the config mlp: it is not there"},
      {{"c.json", "--resume=runs/x"},
       "--resume is a section; a run resumes by itself: the same command goes on from its newest checkpoint"},
      {{"c.json", "--optim=adam"}, "--optim is a section; name one of its keys: --optim."},
      {{"d.json"}, "cannot read the config d.json: it is not there; nearest: c.json"},
      {{"train.py"}, "cannot start the program train.py: it is not there"}};
  for (const auto& [words, answer] : slips) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, answer);
  }
}

TEST_F(Trainrun, ResolvedConfigRerunsTheRun) {
  EXPECT_EQ(trainrun({"c.json", "--optim.lr=0.25", "--name=other"}).code, kExitOk);
  std::string first = file_text("runs/other/config.json");
  EXPECT_HAS(first, "\"lr\": 0.25");
  std::filesystem::copy_file("runs/other/config.json", "again.json");
  EXPECT_EQ(trainrun({"run", "again.json"}).code, kExitOk);
  EXPECT_EQ(file_text("runs/other/config.json"), first);
  EXPECT_TRUE(std::filesystem::exists("runs/other/logs/attempt-2/rank-0.log"));
}

TEST_F(Trainrun, SpellingsOfNproc) {
  for (auto words : std::vector<std::vector<std::string>>{
           {"-n", "2"}, {"--nproc=2"}, {"--nproc-per-node", "2"}, {"--nproc_per_node=2"}}) {
    words.insert(words.end(), {"c.json", "--dry-run"});
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "RANK=R LOCAL_RANK=R WORLD_SIZE=2 ");
  }
  EXPECT_EQ(trainrun({"--nproc", "auto", "c.json", "--dry-run"}).code, kExitOk);
  // A key's value may stand behind a space, before the config and behind it.
  for (auto words : std::vector<std::vector<std::string>>{
           {"show", "--optim.lr", "1e-3", "--optim.weight_decay", "-0", "c.json", "--log.tensorboard",
            "true"},
           {"show", "c.json", "--log.tensorboard=true", "--optim.lr", "1e-3"}}) {
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "\"lr\": 0.001");
    EXPECT_HAS(result.output, "\"tensorboard\": true");
  }
  // A key that is true or false may stand alone.
  EXPECT_HAS(trainrun({"show", "--log.tensorboard", "c.json"}).output, "\"tensorboard\": true");
  EXPECT_HAS(trainrun({"show", "c.json", "--log.tensorboard"}).output, "\"tensorboard\": true");
  EXPECT_HAS(trainrun({"c.json", "--optim.lr", "--nproc", "2"}).output, "--optim.lr has no value");
  EXPECT_FALSE(std::filesystem::exists("runs")) << "a dry run writes nothing";
  for (const char* bad : {"0", "-1", "four", "2x", "99999999999999999999"}) {
    auto result = trainrun({str("--nproc=", bad), "c.json"});
    EXPECT_EQ(result.code, kExitUser);
    EXPECT_HAS(result.output, str("trainrun: --nproc is \"", bad,
                                  "\"; give a number of ranks, 1 or more, or auto (one per core)\n"));
  }
}

TEST_F(Trainrun, WrongInputIsRefusedBeforeAnythingIsWritten) {
  auto refused = [&](std::vector<std::string> words, const std::string& part) {
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, part);
    EXPECT_FALSE(std::filesystem::exists("runs"));
  };
  refused({"c.json", "--optim.lrr=1"},
          "trainrun: command line: unknown key optim.lrr in --optim.lrr=1; did you mean optim.lr?\n");
  refused({"c.json", "--nprc=2"}, "trainrun: command line: unknown flag --nprc; did you mean --nproc?\n");
  refused({"c.json", "--batch.global=30"},
          "c.json: batch.global is 30, not a multiple of batch.micro, 4; 28 and 32 are");
  refused({"--nproc", "4", "c.json", "--mesh.shape=[3]"},
          "mesh.shape [3] multiplies out to 3, but there are 4 ranks");
  refused({"--nproc", "4", "--min-nproc", "3", "c.json", "--mesh.shape=[4]"},
          "--min-nproc 3 lets the run go on with 3 ranks, which the config does not fit: mesh.shape [4]");
  refused({"--nproc", "2", "--min-nproc", "3", "c.json"}, "--min-nproc 3 is more than --nproc 2");
  refused({"no.json"}, "cannot read the config no.json");
  refused({"run"}, "no config given; name one, as in: trainrun --nproc 2 configs/quickstart.json");
  refused({"plan"}, "no config given; name one, as in: trainrun plan configs/quickstart.json");
  refused({"--max-restarts", "-1", "c.json"}, "--max-restarts");
  refused({"ckpt"}, "A subcommand is required; trainrun ckpt --help lists what there is");
  refused({"ckpt", "ls", "nowhere"},
          "no folder nowhere; name a run (runs/NAME), its ckpt folder or one step-N folder");
  refused({"explain", "optim.lrr"}, "explain: nothing is called \"optim.lrr\"; did you mean optim.lr?");
  std::filesystem::create_directories("empty/ckpt");
  refused({"ckpt", "verify", "empty"},
          "empty holds no checkpoint; a run saves at its end, and every checkpoint.every steps");
}

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
          "--hosts: \"a:0\" has no number of ranks of 1 to 4096 behind the colon; write NAME:N");
  refused({"--simulate=2", "--hosts=a,b"},
          "--simulate 2 runs the ranks as threads of this process; leave --hosts, --hostfile, --node-rank "
          "and --slurm "
          "out, or use --nproc");
  refused({"--hosts=a,a"}, "--hosts: a is given twice; give it once, with all its ranks");
  refused({"--hosts=-x"}, "--hosts: \"-x\" is no name of a host");
  refused({"--hostfile", "hosts"},
          "--hostfile hosts cannot be read; give a file with a line \"NAME slots=N\" for each host");
  refused(
      {"--rdzv-conf=timeout=3"},
      "--rdzv-conf timeout=3: node 0's mpirun is reached at --rdzv-endpoint HOST:PORT, with --node-rank K on "
      "each host; leave it out");
  refused(
      {"--redirects", "3"},
      "--redirects 3: every rank's output is kept in runs/NAME/logs/attempt-K/rank-R.log, and shown as --tee "
      "says; leave it out");
  refused({"--tee", "1"},
          "--tee 1: a rank's two streams lie in one log, so both are shown or neither: give 3 or 0, for all "
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
          "--local_rank 0: trainrun starts the ranks and tells each its number in LOCAL_RANK; leave it out");
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
        "MASTER_ADDR=a ", "MASTER_PORT=29500 ", "LOCKSTEP_HOSTS=2 ", "A=b ", "mpirun -n 4 --hostfile ",
        "--mca plm rsh ", "-x MASTER_ADDR "})
    EXPECT_HAS(named, part);
  const std::string agents = said({"--nnodes=2", "--nproc=3", "--node-rank=0", "--rdzv-endpoint",
                                   "10.1.2.3:29411", "--network=10.1.0.0/16"});
  for (const char* part :
       {"OMPI_MCA_btl_tcp_if_include=10.1.0.0/16 ", "MASTER_ADDR=10.1.2.3 ", "MASTER_PORT=29411 ",
        "mpirun -n 6 ", "--mca oob_tcp_static_ipv4_ports 29411 ", "hand-over "})
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

TEST_F(Trainrun, AProgramWithoutASlashIsToldFromAConfig) {
  scratch_.write("mlp", "#!/bin/sh\n");
  EXPECT_HAS(trainrun({"--nproc", "2", "mlp"}).output, "this is not JSON")
      << "no program: it may not be executed";
  std::filesystem::permissions("mlp", std::filesystem::perms::owner_all);
  auto result = trainrun({"--nproc", "2", "mlp"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_EQ(result.output,
            "trainrun: mlp is a program, and a target without a slash is a config; write ./mlp\n");
}

TEST_F(Trainrun, SignalStopsWithItsCode) {
  Process process({TRAINRUN, "--nproc", "2", "c.json", "--train.steps=100000"}, scratch_.path("out"));
  RunRecord run("runs/first");
  run.pids(2);
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(10), kExitStopped) << process.output();
}

TEST_F(Trainrun, AProgramGetsItsArgumentsAndItsOwnFolder) {
  scratch_.write("mine.sh",
                 "#!/bin/sh\necho \"args: $@ dir: $LOCKSTEP_RUN_DIR rank $OMPI_COMM_WORLD_RANK\"\n");
  std::filesystem::permissions("mine.sh", std::filesystem::perms::owner_all);
  auto result = trainrun({"--nproc", "2", "./mine.sh", "--mesh.shape=[2]", "word"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, str("args: --mesh.shape=[2] word dir: ", scratch_.path("runs/mine"), " rank 1"));
  // What stands before it is trainrun's, what stands behind it is the program's, as torchrun has it.
  result =
      trainrun({"--name", "x", "--train.device=cpu", "./mine.sh", "--name=own", "--nproc", "2", "--help"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(
      result.output,
      str("args: --train.device=cpu --name=own --nproc 2 --help dir: ", scratch_.path("runs/x"), " rank \n"));
  EXPECT_HAS(result.output,
             "--nproc stands behind ./mine.sh and goes to it; flags of trainrun stand before the program");
  result = trainrun({"--lr=1", "./mine.sh"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_EQ(
      result.output,
      "trainrun: --lr=1 stands before ./mine.sh and is no flag of trainrun: arguments of the program stand "
      "behind it, as in trainrun --nproc 2 ./mine.sh --lr=1\n");
}

TEST_F(Trainrun, TwoRunsOfAProgramAtOnceNeedTwoNames) {
  scratch_.write("slow.sh", "#!/bin/sh\nsleep 60\n");
  std::filesystem::permissions("slow.sh", std::filesystem::perms::owner_all);
  Process first({TRAINRUN, "./slow.sh"}, scratch_.path("first"));
  ASSERT_TRUE(until(10, [] { return std::filesystem::exists("runs/slow/logs/attempt-1"); }));
  const auto second = trainrun({"./slow.sh"});
  EXPECT_EQ(second.code, kExitUser);
  EXPECT_EQ(second.output, str("trainrun: runs/slow is in use by another trainrun (process ", first.pid(),
                               "); wait for it, stop it, or give this one a folder of its own: trainrun "
                               "--name=OTHER ./slow.sh\n"));
  Process other({TRAINRUN, "--name=other", "./slow.sh"}, scratch_.path("other"));
  EXPECT_TRUE(until(10, [] { return std::filesystem::exists("runs/other/logs/attempt-1"); }));
  for (Process* process : {&first, &other}) {
    kill(process->pid(), SIGINT);
    kill(process->pid(), SIGTERM);
    EXPECT_GT(process->wait(40), 0);
  }
}

TEST_F(Trainrun, ShowPrintsTheResolvedConfigAndTheReference) {
  auto result = trainrun({"show", "c.json", "--batch.micro=8"});
  EXPECT_EQ(result.code, kExitOk);
  EXPECT_HAS(result.output, "\"micro\": 8,");
  result = trainrun({"show", "--reference"});
  EXPECT_EQ(result.code, kExitOk);
  EXPECT_HAS(result.output, "| `optim.lr` | number | `0.0003` |");
}

TEST_F(Trainrun, HelpShowsExamplesFirstAndEverySubcommand) {
  auto result = trainrun({"--help"});
  EXPECT_EQ(result.code, kExitOk);
  EXPECT_LT(std::count(result.output.begin(), result.output.end(), '\n'), 25);
  for (const char* part :
       {"trainrun --nproc 2 configs/quickstart.json", "trainrun plan", "trainrun show", "trainrun ckpt ls",
        "ckpt verify", "trainrun generate", "trainrun explain", "trainrun env"})
    EXPECT_HAS(result.output, part);
  EXPECT_EQ(trainrun({}).code, kExitUser);
  result = trainrun({"run", "--help"});
  EXPECT_EQ(result.code, kExitOk);
  for (const char* part : {"--nproc", "--max-restarts", "--min-nproc", "--grace", "--dry-run"})
    EXPECT_HAS(result.output, part);
  EXPECT_HAS(trainrun({"--version"}).output, "lockstep 0.");
}

TEST_F(Trainrun, PlanAndGenerateGetTheirArguments) {
  EXPECT_EQ(trainrun({"plan", "--nproc", "8", "c.json", "--name=p"}).output, "plan of p on 8\n");
  EXPECT_EQ(trainrun({"generate", "runs/first", "--prompt", "The ", "--tokens=5", "--top-k=3"}).output,
            "runs/first|The |5|0.8|3|1337\n");
}

TEST_F(Trainrun, EnvListsVariablesAndTopics) {
  auto output = trainrun({"env"}).output;
  for (const char* part : {"LOCKSTEP_LOGS", "LOCKSTEP_DEADLINE", "overlap", "processor: "})
    EXPECT_HAS(output, part);
}

TEST_F(Trainrun, ExplainLooksEverywhere) {
  auto said = [&](const char* word) { return trainrun({"explain", word}).output; };
  EXPECT_HAS(said("optim.clip"), "optim.clip: largest global norm of the gradients");
  EXPECT_HAS(said("checkpoint"), "checkpoint.keep: ");
  EXPECT_HAS(said("80"), "stopped by SIGTERM or SIGINT");
  EXPECT_HAS(said("PeerError"), "Exit code 75");
  EXPECT_HAS(said("LOCKSTEP_FAULT"), "fault injection");
  EXPECT_HAS(said("fusion"), "LOCKSTEP_LOGS=fusion");
  EXPECT_HAS(said("softmax"), "op softmax");
  EXPECT_HAS(said("137"), "SIGKILL (9), most often because memory ran out");
  EXPECT_HAS(said("nproc"), "--nproc N|auto|MIN:MAX: ranks of a host");
  EXPECT_HAS(said("--max-restarts"), "--max-restarts N[/TIME]: restarts after a rank died");
}

}  // namespace
}  // namespace lockstep
