// trainrun's command line, end to end except for the training itself.
#include <gtest/gtest.h>

#include "tests/process/commands/trainrun_fixture.h"

namespace lockstep {
namespace {

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
  EXPECT_HAS(gone.output, "trainrun: warning: data: not there: ");
  EXPECT_HAS(gone.output, "/nope/x.txt");
  auto many = trainrun({"c.json", "--dry-run", "--train.device=cuda:4095"});
  EXPECT_EQ(many.code, kExitOk) << many.output;
  EXPECT_HAS(many.output, "trainrun: warning: train.device \"cuda:4095\": not here: ");
  scratch_.write("a", "some text");
  auto there = trainrun({"--nproc", "2", "c.json", "--dry-run"});
  EXPECT_EQ(there.output.find("warning: data"), std::string::npos) << there.output;
}

// A slip in the command, a word of others that is a section here, a config or a program that is not there.
TEST_F(Trainrun, SlipsAreAnswered) {
  const std::pair<std::vector<std::string>, const char*> slips[] = {
      {{"plna", "c.json"}, "there is no command \"plna\"; did you mean trainrun plan?"},
      {{"import_hf", "folder"}, "there is no command \"import_hf\"; did you mean trainrun import-hf?"},
      {{"gen", "runs/first"}, "there is no command \"gen\"; did you mean trainrun generate?"},
      {{"mlp"}, "cannot read the config mlp: it is not there"},
      {{"c.json", "--resume=runs/x"},
       "--resume is a section; a run resumes by itself: the same command continues from its newest"},
      {{"c.json", "--optim=adam"}, "--optim is a section; name one of its keys: --optim."},
      {{"d.json"}, "cannot read the config d.json: it is not there; nearest: c.json"},
      {{"train.py"}, "cannot start the program train.py: it is not there"},
      {{"evaluate", "c.json"},
       "there is no command \"evaluate\": a run validates by itself: train.eval_every"},
      {{"eval", "runs/x"}, "there is no command \"eval\": a run validates by itself: train.eval_every"},
      {{"evaluate"}, "there is no command \"evaluate\": "},
      {{"serve"}, "there is no command \"serve\": trainrun export-hf RUN OUT writes a folder that servers"},
      {{"--nprocs", "2", "c.json"}, "unknown flag --nprocs; did you mean --nproc?"},
      {{"--gpu", "h100", "c.json"}, "unknown key gpu in --gpu; "},
      {{"--device", "cuda", "c.json"}, "unknown key device in --device; did you mean train.device?"},
      {{"c.json", "--model.kind=mixtral"}, "; no family has experts; examples/moe.cpp"},
      {{"c.json", "--model.attn_dropout=0.1"}, "no attention probabilities are dropped here"}};
  for (const auto& [words, answer] : slips) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, answer);
    EXPECT_EQ(result.output.find("is neither a flag nor"), std::string::npos) << result.output;
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

TEST_F(Trainrun, ARunsFolderIsAnsweredWithItsConfig) {
  ASSERT_EQ(trainrun({"--nproc", "2", "c.json"}).code, kExitOk);
  const auto result = trainrun({"--nproc", "2", "runs/first"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output,
             "cannot read the config runs/first: it is a folder; of this run: runs/first/config.json\n");
}

TEST_F(Trainrun, SpellingsOfNproc) {
  for (auto words : std::vector<std::vector<std::string>>{
           {"-n", "2"}, {"--nproc=2"}, {"--nproc-per-node", "2"}, {"--nproc_per_node=2"}}) {
    words.insert(words.end(), {"c.json", "--dry-run"});
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "\nRANK=R \\\nLOCAL_RANK=R \\\nWORLD_SIZE=2 \\\n");
    for (const auto& line : split(result.output, '\n'))  // a variable to a line, then the command
      EXPECT_TRUE(line.empty() || line.starts_with("trainrun: ") || line.ends_with(" \\") ||
                  line.find(" worker ") != std::string::npos)
          << line;
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
  refused(
      {"ckpt", "ls", "nowhere"},
      "no run nowhere: there is neither a folder runs/nowhere nor nowhere; there is no folder runs here: go "
      "to where the run was started, or give its path\n");
  refused({"explain", "optim.lrr"}, "explain: nothing is called \"optim.lrr\"; did you mean optim.lr?");
  std::filesystem::create_directories("empty/ckpt");
  refused({"ckpt", "verify", "empty"},
          "empty holds no checkpoint; a run saves at its end, and every checkpoint.every steps");
}

// What the parser of the command line refuses is told in the launcher's words: what was given, and the way
// out.
TEST_F(Trainrun, WordsThatDoNotFitTheCommand) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--nproc", "2", "--nproc", "3", "c.json"},
       "--nproc is given 2 times, as \"2\" and \"3\", and has one value; leave the others out\n"},
      {{"c.json", "--nproc"}, "--nproc has no value; write --nproc N|auto|MIN:MAX (ranks of a host"},
      {{"top", "a", "b"}, "top has no place for \"b\"; leave it out: trainrun top RUN\n"},
      {{"env", "a", "b"}, "env has no place for \"a\" and \"b\"; leave them out: trainrun env\n"},
      {{"top", "a", "--onec"}, "top has no flag --onec; did you mean --once?\n"},
      {{"top", "a", "--zzzz=3"}, "top has no flag --zzzz; trainrun top --help lists those that it has\n"},
      {{"ckpt", "ls"},
       "ckpt ls: no PATH is given (runs/NAME, its ckpt folder, or one step-N folder; or "
       "s3://BUCKET/...); write trainrun ckpt ls PATH\n"},
      {{"verify", "runs/a"}, "there is no command \"verify\": trainrun ckpt verify RUN reads a run's "},
      {{"ckpt", "prune", "a"},
       "ckpt prune: --keep is required, and is not given (the newest N whole "
       "ones stay; at least 1); write trainrun ckpt prune RUN --keep N\n"},
      {{"c.json", "--timeout", ""},
       "--timeout is empty, as where a variable is not set; give a value, or leave it out: trainrun run "
       "--help\n"},
      {{"plan", "c.json", "--memory="},
       "--memory has no value after its =; give one, or leave it out: trainrun plan --help\n"},
      {{"ckpt"}, "ckpt needs one of its commands:\n  ls       all checkpoints of a run\n"},
      {{"ckpt", "verfy", "a"}, "ckpt has no command \"verfy\"; did you mean trainrun ckpt verify?\n"},
      {{"ckpt", "runs/a"}, "ckpt has no command \"runs/a\"; it has:\n  ls       all checkpoints"},
      {{"generate", "a", "--tokens", "many"},
       "--tokens is \"many\"; it must be a whole number from 0 to 9223372036854775807; trainrun generate"},
      {{"c.json", "--grace=nan"}, "--grace is \"nan\"; it must be a number from 0 to 1000000000; "},
      {{"c.json", "--grow-after=1e30"},
       "--grow-after is \"1e30\"; it must be a number from 0 to 1000000000; "},
      {{"c.json", "--restart-delay=-1"},
       "--restart-delay is \"-1\"; it must be a number from 0 to 1000000000; "},
      {{"c.json", "--slow-host=NaN"}, "--slow-host is \"NaN\"; it must be a number from 1.5 to 1000000; "},
      {{"generate", "a", "--temperature=nan"},
       "--temperature is \"nan\"; it must be a number from 0 to 1000; "},
      {{"top", "a", "--once=x"}, "--once takes no value; write --once alone, or leave it out\n"},
      {{"generate", "a", "--top-k=-3"},
       "--top-k is \"-3\"; it must be a whole number from 0 to 1073741824; "},
      {{"generate", "a", "--system", "b"},
       "--system goes with --chat, which is not given; add it, or leave --system out\n"},
      {{"ckpt", "reshard", "a", "b", "--ranks=2", "--mesh={}"},
       "--ranks and --mesh are both given; leave one of them out\n"},
      {{"c.json", "optim.lr=1"},
       "\"optim.lr=1\" is neither a flag nor an override --KEY=VALUE; did you mean "
       "--optim.lr=1?\n"},
      {{"c.json", "c.json"},
       "\"c.json\" is neither a flag nor an override --KEY=VALUE; a command takes one "
       "config: leave one out\n"}};
  for (const auto& [words, answer] : cases) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, answer);
  }
}

// A run that is not there is not one without checkpoints; the one that may be meant is named.
TEST_F(Trainrun, RunsThatAreNotThere) {
  std::filesystem::create_directories("runs/first/ckpt");
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"ckpt", "ls", "frist"},
                                             {"ckpt", "show", "frist"},
                                             {"ckpt", "verify", "frist"},
                                             {"ckpt", "cat", "frist", "x"},
                                             {"ckpt", "prune", "frist", "--keep=1"},
                                             {"ckpt", "diff", "first", "frist"},
                                             {"ckpt", "reshard", "frist", "o", "--ranks=2"}}) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output,
               "no run frist: there is neither a folder runs/frist nor frist; did you mean runs/first?\n");
  }
  EXPECT_HAS(trainrun({"ckpt", "ls", "runs/other"}).output,
             "no run runs/other: there is no such folder; the runs here are first\n");
  std::filesystem::create_directories("runs/run/logs");
  EXPECT_HAS(trainrun({"ckpt", "ls", "runs/zzz"}).output, "; the runs here are first, run\n");
  EXPECT_HAS(trainrun({"top", "rnu"}).output, "no run rnu that has logs; did you mean runs/run?\n");
  EXPECT_HAS(trainrun({"report", "frist"}).output, "; did you mean runs/first?\n");
  EXPECT_HAS(trainrun({"export-hf", "frist", "out"}).output, "; did you mean runs/first?\n");
  EXPECT_HAS(trainrun({"flight", "runs/frist/logs/attempt-1"}).output,
             "no flight record runs/frist/logs/attempt-1: there is no such file or folder; name "
             "runs/NAME/logs/attempt-K, or one record in it; did you mean runs/first?\n");
  EXPECT_HAS(trainrun({"ckpt", "ls", "first"}).output, "first holds no checkpoint; a run saves at its end");
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
  for (int signal : {SIGINT, SIGUSR1}) {  // the second is what batch systems warn with
    Process process({TRAINRUN, "--nproc", "2", "c.json", "--train.steps=100000", str("--name=on-", signal)},
                    scratch_.path(str("out-", signal)));
    RunRecord run(str("runs/on-", signal));
    run.pids(2);
    kill(process.pid(), signal);
    EXPECT_EQ(process.wait(10), kExitStopped) << process.output();
  }
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
             "trainrun: warning: --nproc stands behind ./mine.sh and goes to it; flags of trainrun come "
             "before the program");
  for (const char* name : {"../../x", "a/b", "..", ".", "", "two\nlines", "/tmp"}) {
    result = trainrun({str("--name=", name), "./mine.sh"});
    EXPECT_EQ(result.code, kExitUser) << name;
    EXPECT_HAS(result.output,
               "\"; it names a folder below runs/, so it has no slash, no space and no control "
               "character, and at most 200 bytes");
  }
  EXPECT_FALSE(std::filesystem::exists("../x"));
  result = trainrun({"--lr=1", "./mine.sh"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_EQ(result.output,
            "trainrun: --lr=1 stands before ./mine.sh and is no flag of trainrun: arguments of the program "
            "come after it, as in trainrun --nproc 2 ./mine.sh --lr=1\n");
}

TEST_F(Trainrun, TwoRunsOfAProgramAtOnceNeedTwoNames) {
  scratch_.write("slow.sh", "#!/bin/sh\nsleep 60\n");
  std::filesystem::permissions("slow.sh", std::filesystem::perms::owner_all);
  Process first({TRAINRUN, "./slow.sh"}, scratch_.path("first"));
  ASSERT_TRUE(until(10, [] { return std::filesystem::exists("runs/slow/logs/attempt-1"); }));
  const auto second = trainrun({"./slow.sh"});
  EXPECT_EQ(second.code, kExitUser);
  EXPECT_HAS(second.output,
             str("trainrun: runs/slow is in use by another trainrun (process ", first.pid(), ", since 2"));
  EXPECT_HAS(
      second.output,
      "); wait for it, stop it, or give this one a folder of its own: trainrun --name=OTHER ./slow.sh\n");
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
  EXPECT_HAS(result.output, "| `model.rope_theta` | number | `10000.0`; `1000000.0` of qwen | ");
}

TEST_F(Trainrun, HelpShowsExamplesFirstAndEverySubcommand) {
  auto result = trainrun({"--help"});
  EXPECT_EQ(result.code, kExitOk);
  EXPECT_LT(std::count(result.output.begin(), result.output.end(), '\n'), 25);
  for (const char* part :
       {"trainrun --nproc 2 configs/quickstart.json", "trainrun plan", "trainrun show", "trainrun ckpt ls",
        "ckpt verify", "trainrun generate", "trainrun explain", "trainrun env", "trainrun bisect"})
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
  EXPECT_HAS(trainrun({"explain", "root", "cause"}).output, "root cause: The first failure of a run");
  EXPECT_HAS(said("schedule"), "optim.schedule.kind: how the learning rate falls");
  const std::string op = said("concat");
  EXPECT_HAS(op, "\n  as in concat(");
  EXPECT_HAS(op, ") {dim=");
  EXPECT_HAS(op, " -> ");
  EXPECT_HAS(op, "\n  attributes: dim (an integer), ");
  EXPECT_HAS(op, "help(lockstep.concat)");
}

TEST_F(Trainrun, ExplainListsWhatThereIs) {
  const auto all = trainrun({"explain"});
  EXPECT_EQ(all.code, kExitOk) << all.output;
  for (const char* part : {" config keys  ", "as optim.clip, batch.micro", "ops ", "softmax",
                           "; all: trainrun show --reference", "exit codes and kinds of errors"})
    EXPECT_HAS(all.output, part);
  EXPECT_LT(all.output.size(), 1500u);
  const auto ops = trainrun({"explain", "ops"});
  EXPECT_EQ(ops.code, kExitOk) << ops.output;
  EXPECT_HAS(ops.output, "  cross_entropy  ");
  for (const auto& line : split(ops.output, '\n')) EXPECT_LE(line.size(), 100u) << line;
  // Only what is near is suggested.
  EXPECT_HAS(trainrun({"explain", "softmx"}).output, "nothing is called \"softmx\"; did you mean softmax?\n");
  EXPECT_HAS(trainrun({"explain", "shedule"}).output, "; did you mean schedule?\n");
  for (const char* far : {"zebrafish", "conv2d", "xy"}) {
    const auto result = trainrun({"explain", far});
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_EQ(result.output.find("did you mean"), std::string::npos) << result.output;
    EXPECT_HAS(result.output,
               "; trainrun explain lists what can be explained: config keys, flags of trainrun run, ");
  }
}

}  // namespace
}  // namespace lockstep
