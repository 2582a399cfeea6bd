// trainrun replay: a step computed again on any ranks comes out as recorded; what was changed is found, and
// nothing is written.
#include <regex>

#include "launcher/cli/commands.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Replay : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
    train({"--nproc", "2", "c.json", "--train.steps=60", "--train.eval_every=25", "--log.hash_every=10",
           "--checkpoint.keep=2"});
    ASSERT_EQ(checkpoints("run"), (std::vector<std::string>{"step-40", "step-60"}));
    std::filesystem::create_directory("tmp");
  }
  Result replay(std::vector<std::string> words) {
    words.insert(words.begin(), "replay");
    auto before = everything();
    auto result = trainrun(words, {{"TMPDIR", scratch_.path("tmp")}});
    EXPECT_EQ(everything(), before) << "a replay writes nothing into the run's folder";
    for (const auto& entry :
         std::filesystem::directory_iterator("tmp"))  // mpirun may leave its own folder, empty
      EXPECT_EQ(entry.path().filename().string().find("lockstep"), std::string::npos)
          << entry.path() << " is left";
    return result;
  }
  // Path, bytes and time of all files below runs/, logs too.
  static std::map<std::string, std::string> everything() {
    std::map<std::string, std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator("runs"))
      out[entry.path()] = str(entry.last_write_time().time_since_epoch().count(),
                              entry.is_regular_file() ? file_text(entry.path()) : "");
    return out;
  }
  // "recorded replayed verdict" of a quantity.
  static std::string cells(const std::string& output, const std::string& quantity) {
    std::smatch found;
    EXPECT_TRUE(
        std::regex_search(output, found, std::regex("\n  " + quantity + " +(\\S+) +(\\S+) +([^\n]+)\n")))
        << output;
    return found.empty() ? "" : str(found[1], " ", found[2], " ", found[3]);
  }
  static std::string equal_cells(std::string value) {
    std::erase(value, '"');
    return value + " " + value + " equal";
  }
  // The line of a step in metrics.jsonl, changed.
  void edit(int64_t step, const std::function<std::string(std::string)>& change) {
    std::string out;
    std::ifstream file("runs/run/metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      out += (line.rfind(str("{\"step\": ", step, ","), 0) == 0 ? change(line) : line) + "\n";
    std::ofstream("runs/run/metrics.jsonl") << out;
  }
  static std::string with_other_loss(std::string line) {
    size_t digit = line.find("\"loss\": ") + 10;
    line[digit] = line[digit] == '4' ? '5' : '4';
    return line;
  }
  void refused(std::vector<std::string> words, const std::string& text) {
    auto result = replay(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_EQ(result.output, "trainrun: " + text + "\n");
  }
};

TEST_F(Replay, EqualOnAnyRanks) {
  auto line = metrics("run")[49];
  ASSERT_EQ(line["step"], "50");
  for (const auto& where :
       std::vector<std::vector<std::string>>{{}, {"--nproc", "1"}, {"--nproc", "2"}, {"--simulate", "3"}}) {
    auto words = where;
    words.insert(words.end(), {"--step", "50", "run"});
    auto result = replay(words);
    EXPECT_EQ(result.code, kExitOk) << join(words, " ") << "\n" << result.output;
    EXPECT_HAS(result.output,
               str("replaying steps 41 to 50 from runs/run/ckpt/step-40 on the mesh [dp_replicate=",
                   where.empty() ? "1" : where[1], "]\n"));
    EXPECT_HAS(result.output, "step 50 of runs/run, config of runs/run/ckpt/step-60/manifest.json\n");
    for (const char* name : {"loss", "grad_norm", "lr", "val_loss", "state_hash", "certificate"})
      EXPECT_EQ(cells(result.output, name), equal_cells(line.at(name))) << name;
    EXPECT_HAS(result.output, "equal: what is recorded of step 50 came out again, bit for bit\n");
  }
}

TEST_F(Replay, OneStepAndWhatItHasNoRecordOf) {
  auto result = replay({"runs/run/", "--step=41"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "replaying step 41 from runs/run/ckpt/step-40 ");
  EXPECT_EQ(cells(result.output, "loss"), equal_cells(metrics("run")[40].at("loss")));
  EXPECT_TRUE(std::regex_search(result.output, std::regex("\n  state_hash +- +[0-9a-f]+ +not recorded\n")))
      << result.output;
  EXPECT_EQ(result.output.find("val_loss"), std::string::npos);
  EXPECT_HAS(result.output,
             "the state of step 41 was not hashed (log.hash_every 10); steps that have a hash: 10, 20, 30, "
             "40, 50, 60\n");
}

TEST_F(Replay, AChangedRecordDiffers) {
  edit(50, with_other_loss);
  auto result = replay({"--step", "50", "--simulate", "2", "run"});
  EXPECT_EQ(result.code, launcher::cli::kExitDiffers) << result.output;
  auto loss = cells(result.output, "loss");
  EXPECT_EQ(loss.substr(loss.rfind(' ') + 1), "differs");
  EXPECT_HAS(cells(result.output, "state_hash"), " equal");
  EXPECT_HAS(result.output,
             "\ndiffers: loss\nthe certificates are equal, which promises equal bits: the record was "
             "changed, or one of the two computed wrong");
}

TEST_F(Replay, OfTwoLinesOfAStepTheLastCounts) {
  const std::string whole = file_text("runs/run/metrics.jsonl");
  edit(50, [](const std::string& line) { return with_other_loss(line) + "\n" + line; });
  EXPECT_EQ(replay({"--step", "50", "run"}).code, kExitOk);
  std::ofstream("runs/run/metrics.jsonl") << whole;
  edit(50, [](const std::string& line) { return line + "\n" + with_other_loss(line); });
  EXPECT_EQ(replay({"--step", "50", "run"}).code, launcher::cli::kExitDiffers);
}

TEST_F(Replay, AnotherCertificateSaysWhy) {
  auto result = replay({"--step", "42", "run", "--batch.micro=4"});
  EXPECT_EQ(result.code, launcher::cli::kExitDiffers) << result.output;
  EXPECT_HAS(cells(result.output, "certificate"), " differs");
  EXPECT_HAS(result.output,
             "bits are not promised equal, since the certificates differ; batch.micro: 2 then, 4 now\n");
  result = replay({"--step", "42", "run", "--optim.weight_decay=0.2"});
  EXPECT_EQ(result.code, launcher::cli::kExitDiffers);
  EXPECT_HAS(result.output, "optim.weight_decay: 0.1 then, 0.2 now\n");
  result = replay({"--step", "42", "run", "--optim.lr=0.02"});
  EXPECT_EQ(result.code, launcher::cli::kExitDiffers);
  EXPECT_HAS(cells(result.output, "lr"), "0.01 0.02 differs");
  EXPECT_HAS(result.output, "the config is not the run's: optim.lr: 0.01 then, 0.02 now\n");
}

TEST_F(Replay, TheConfigIsTheOneOfTheStep) {
  train({"--nproc", "1", "c.json", "--train.steps=65", "--optim.lr=0.02", "--checkpoint.keep=9"});
  auto result = replay({"--step", "45", "run"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  result = replay({"--step", "62", "run"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "step 62 of runs/run, config of runs/run/ckpt/step-65/manifest.json\n");
  EXPECT_HAS(cells(result.output, "lr"), "0.02 0.02 equal");
}

TEST_F(Replay, StepsWithoutARecordAreNamed) {
  train({"--nproc", "1", "c.json", "--name=few", "--train.steps=45", "--log.every=30",
         "--checkpoint.every=15", "--checkpoint.keep=9"});
  auto result = replay({"--step", "15", "few", "--from-start"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "replaying steps 1 to 15 from the initial weights ");
  EXPECT_HAS(cells(result.output, "state_hash"), " equal");
  EXPECT_TRUE(std::regex_search(result.output, std::regex("\n  loss +- +[0-9.]+ +not recorded\n")))
      << result.output;
  EXPECT_HAS(result.output,
             "metrics.jsonl has no line of step 15 (log.every 30; it has 1, 30, 45): what is compared is of "
             "the checkpoint runs/few/ckpt/step-15\n");
  refused({"--step", "20", "few"},
          "nothing is recorded of step 20 of runs/few; metrics.jsonl has the steps 1, 30, 45, and there are "
          "checkpoints of 15, 30, 45 "
          "(log.every and log.hash_every decide what is recorded)");
}

// A rate that follows the validation: the ones on the way are made again.
TEST_F(Replay, ARateThatFollowsTheValidation) {
  train({"--nproc", "2", "c.json", "--name=plateau", "--train.steps=24", "--checkpoint.every=8",
         "--optim.schedule.kind=plateau", "--optim.schedule.metric=val_loss", "--optim.schedule.factor=0.5",
         "--optim.schedule.patience=0", "--optim.schedule.threshold=0.9", "--optim.schedule.warmup=0",
         "--train.eval_every=3"});
  ASSERT_NE(metrics("plateau")[17].at("lr"), metrics("plateau")[18].at("lr")) << "it falls behind step 18";
  const auto result = replay({"--step", "20", "--simulate", "2", "plateau"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(cells(result.output, "lr"), " equal");
  EXPECT_HAS(cells(result.output, "loss"), " equal");
}

TEST_F(Replay, ADifferenceOnTheWayIsNamed) {
  edit(43, with_other_loss);
  auto result = replay({"--step", "45", "--nproc", "2", "run"});
  EXPECT_EQ(result.code, launcher::cli::kExitDiffers) << result.output;
  EXPECT_HAS(cells(result.output, "loss"), " equal");
  EXPECT_TRUE(std::regex_search(
      result.output, std::regex("\nthe first difference is at step 43: loss \\S+ recorded, \\S+ replayed\n")))
      << result.output;
}

TEST_F(Replay, WhatCannotBeReplayedIsRefused) {
  refused({"--step", "30", "run"},
          "no checkpoint before step 30 in runs/run/ckpt; it holds the steps 40, 60: choose a later step, or "
          "--from-start, which reruns all "
          "steps from the initial weights");
  refused({"--step", "61", "run"}, "step 61 is beyond the run: runs/run is recorded up to step 60");
  refused({"--step", "0", "run"}, "--step is 0; steps are counted from 1");
  refused({"--step", "5", "rum"},
          "no run rum: neither runs/rum nor rum has a config.json of a run that was started; did you mean "
          "runs/run?");
  refused({"--step", "5", "runs/zzz"},
          "no run runs/zzz: runs/zzz has no config.json of a run that was started; the runs here are run");
  refused({"--step", "50", "run", "--simulate", "2", "--nproc", "2"},
          "--simulate 2 and --nproc 2 are both given; use --nproc N for ranks that are processes, --simulate "
          "N for ranks that are threads of this one");
  refused({"--step", "50", "run", "--simulate", "2", "--train.device=cuda"},
          "--simulate 2 runs 2 ranks in one process, and one process drives one device, but train.device is "
          "\"cuda\"; use --train.device=cpu, "
          "--simulate 1, or --nproc 2");
  EXPECT_HAS(replay({"run"}).output, "replay: --step is required, and is not given");
  EXPECT_HAS(replay({"--step", "50", "run", "--optim.lrr=1"}).output, "unknown key optim.lrr");
  auto help = trainrun({"replay", "--help"});
  EXPECT_EQ(help.code, kExitOk);
  for (const char* part :
       {"--step", "--simulate", "--nproc", "--from-start", "1 a value or the certificate differs"})
    EXPECT_HAS(help.output, part);
}

TEST_F(Replay, ADamagedCheckpointIsPassedOver) {
  train({"--nproc", "1", "c.json", "--train.steps=80", "--checkpoint.keep=9"});
  ASSERT_EQ(checkpoints("run"), (std::vector<std::string>{"step-40", "step-60", "step-80"}));
  auto flip_last_byte = [](const std::string& path) {
    std::string bytes = file_text(path);
    bytes.back() ^= 1;
    std::ofstream(path, std::ios::binary) << bytes;
  };
  flip_last_byte("runs/run/ckpt/step-60/rank-0.safetensors");
  for (const auto& where : std::vector<std::vector<std::string>>{{"--simulate", "2"}, {"--nproc", "2"}}) {
    auto result = replay({"--step", "70", "run", where[0], where[1]});
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_EQ(occurrences(result.output, "runs/run/ckpt/step-60 is damaged: "), 1) << result.output;
    EXPECT_HAS(result.output, "replaying steps 41 to 70 from runs/run/ckpt/step-40 ");
  }
  flip_last_byte("runs/run/ckpt/step-40/rank-0.safetensors");
  auto result = replay({"--step", "70", "run", "--simulate", "2"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output, "trainrun: root cause: UserError: no checkpoint before step 70 is whole:\n");
  EXPECT_HAS(result.output, "--from-start reruns the steps from the initial weights\n");
}

TEST_F(Replay, AFailureOfARankIsTold) {
  for (const auto& where : std::vector<std::vector<std::string>>{{"--simulate", "2"}, {"--nproc", "2"}}) {
    auto result = trainrun({"replay", "--step", "50", "run", where[0], where[1]},
                           {{"LOCKSTEP_FAULT", "throw:rank=1,step=45"}});
    EXPECT_EQ(result.code, kExitInternal) << result.output;
    EXPECT_HAS(result.output,
               "trainrun: root cause: rank 1: InternalError at step 45: fault injected by LOCKSTEP_FAULT at "
               "step 45\n");
  }
}

}  // namespace
}  // namespace lockstep::tests
