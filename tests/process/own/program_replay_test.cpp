// trainrun replay of a program of one's own: its steps come out as recorded on any ranks, what was changed is
// found, nothing is written, and what cannot be replayed is refused.
#include <regex>

#include "launcher/cli/commands.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

using launcher::cli::kExitDiffers;

class ProgramReplay : public RealRun {
 protected:
  static std::vector<std::string> program(const std::string& run, const std::vector<std::string>& modes) {
    std::vector<std::string> out{LOOP_PROGRAM, "runs/" + run, "14"};
    out.insert(out.end(), modes.begin(), modes.end());
    out.emplace_back("--train.device=cpu");
    return out;
  }
  void run(int nproc, const std::string& name, const std::vector<std::string>& modes) {
    std::vector<std::string> words{"--nproc", str(nproc)};
    for (const auto& word : program(name, modes)) words.push_back(word);
    train(words);
  }
  // Leaves runs/ as it is, and nothing in the folder of temporary files.
  Result replay(std::vector<std::string> words, const std::vector<std::string>& program = {},
                Variables variables = {}) {
    std::filesystem::create_directory("tmp");
    words.insert(words.begin(), "replay");
    words.insert(words.end(), program.begin(), program.end());
    const auto before = everything();
    variables.emplace("TMPDIR", scratch_.path("tmp"));
    auto result = trainrun(words, std::move(variables));
    EXPECT_EQ(everything(), before) << "a replay writes nothing into the run's folder";
    for (const auto& entry : std::filesystem::directory_iterator("tmp"))
      EXPECT_EQ(entry.path().filename().string().find("lockstep"), std::string::npos) << entry.path();
    return result;
  }
  static std::map<std::string, std::string> everything() {
    std::map<std::string, std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator("runs"))
      out[entry.path()] = str(entry.last_write_time().time_since_epoch().count(),
                              entry.is_regular_file() ? file_text(entry.path()) : "");
    return out;
  }
  static std::string cells(const std::string& output, const std::string& quantity) {
    std::smatch found;
    EXPECT_TRUE(
        std::regex_search(output, found, std::regex("\n  " + quantity + " +(\\S+) +(\\S+) +([^\n]+)\n")))
        << quantity << " in " << output;
    return found.empty() ? "" : str(found[1], " ", found[2], " ", found[3]);
  }
  static std::string equal_cells(std::string value) {
    std::erase(value, '"');
    return value + " " + value + " equal";
  }
  // Another digit of the loss of a step.
  static void change_loss(const std::string& name, int64_t step) {
    const std::string path = "runs/" + name + "/metrics.jsonl";
    std::string out;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line); out += line + "\n")
      if (line.rfind(str("{\"step\": ", step, ","), 0) == 0) {
        const size_t digit = line.find("\"loss\": ") + 10;
        line[digit] = line[digit] == '4' ? '5' : '4';
      }
    std::ofstream(path) << out;
  }
  void refused(const Result& result, const std::string& words) {
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, words);
  }
};

TEST_F(ProgramReplay, ComesOutAgainOnAnyRanks) {
  run(2, "a", {"saves"});
  ASSERT_EQ(checkpoints("a"), (std::vector<std::string>{"step-12", "step-14", "step-8"}));
  const auto lines = metrics("a");
  for (const char* nproc : {"1", "2", "3"}) {
    const auto result = replay({"--step", "12", "--nproc", nproc, "runs/a"}, program("a", {"saves"}));
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(
        result.output,
        str("replaying steps 9 to 12 from runs/a/ckpt/step-8 on the mesh [dp_replicate=", nproc, "]\n"));
    EXPECT_HAS(result.output, str("step 12 of runs/a, program ", LOOP_PROGRAM, "\n"));
    for (const char* name : {"loss", "lr", "mae", "state_hash", "certificate"})
      EXPECT_EQ(cells(result.output, name), equal_cells(lines[11].at(name))) << name;
    EXPECT_HAS(result.output, "equal: what is recorded of step 12 came out again, bit for bit\n");
    EXPECT_EQ(result.output.find("back"), std::string::npos) << "what is behind train() is not reached";
  }
  const auto gap = replay({"--step=11", "a"}, program("a", {"saves"}));
  EXPECT_EQ(gap.code, kExitOk) << gap.output;
  EXPECT_HAS(gap.output,
             "the state of step 11 was not hashed (hash_every); steps that have a hash: 3, 6, 8, 9, ");
  const auto start = replay({"--step", "3", "--from-start", "runs/a"}, program("a", {"saves"}));
  EXPECT_EQ(start.code, kExitOk) << start.output;
  EXPECT_HAS(start.output, "replaying steps 1 to 3 from the initial weights ");
  EXPECT_HAS(cells(start.output, "state_hash"), " equal");
}

// What a validation changes on the way is changed in the replay, too.
TEST_F(ProgramReplay, ARateThatFollowsAValidation) {
  run(1, "p", {"saves", "plateau"});
  for (const char* step : {"11", "12"}) {
    const auto result =
        replay({"--step", step, "--nproc", "2", "runs/p"}, program("p", {"saves", "plateau"}));
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "replaying steps 9 to ");
    EXPECT_HAS(cells(result.output, "loss"), " equal");
    if (std::string(step) == "12") {
      EXPECT_HAS(cells(result.output, "state_hash"), " equal");  // of the plateau's own numbers, too
      EXPECT_HAS(cells(result.output, "val_loss"), " equal");
      EXPECT_HAS(cells(result.output, "val_mae"), " equal");
    }
  }
}

TEST_F(ProgramReplay, AChangedRecordIsFound) {
  run(1, "a", {"saves"});
  change_loss("a", 12);
  const auto last = replay({"--step", "12", "runs/a"}, program("a", {"saves"}));
  EXPECT_EQ(last.code, kExitDiffers) << last.output;
  EXPECT_HAS(cells(last.output, "loss"), " differs");
  EXPECT_HAS(cells(last.output, "state_hash"), " equal");
  EXPECT_HAS(last.output,
             "\ndiffers: loss\nthe certificates are equal, which promises equal bits of equal data");
  EXPECT_HAS(last.output, "or the program's arguments, are not what they were");
  change_loss("a", 10);
  const auto first = replay({"--step", "12", "runs/a"}, program("a", {"saves"}));
  EXPECT_EQ(first.code, kExitDiffers) << first.output;
  EXPECT_TRUE(std::regex_search(
      first.output, std::regex("\nthe first difference is at step 10: loss \\S+ recorded, \\S+ replayed\n")))
      << first.output;
  const auto way = replay({"--step", "11", "runs/a"}, program("a", {"saves"}));
  EXPECT_EQ(way.code, kExitDiffers) << way.output;
  EXPECT_HAS(cells(way.output, "loss"), " equal");
  EXPECT_HAS(way.output, "the first difference is at step 10: loss ");
}

TEST_F(ProgramReplay, AnotherProgramHasAnotherCertificate) {
  run(2, "a", {"saves"});
  const auto result = replay({"--step", "12", "--nproc", "2", "runs/a"}, program("a", {"saves", "other"}));
  EXPECT_EQ(result.code, kExitDiffers) << result.output;
  const std::string was = metrics("a")[11].at("certificate");
  EXPECT_HAS(cells(result.output, "certificate"), was.substr(1, was.size() - 2) + " ");
  EXPECT_HAS(cells(result.output, "certificate"), " differs");
  EXPECT_HAS(
      result.output,
      "bits are not promised equal, since the certificates differ; the program's step, its batch or its "
      "precision is not the one that made the run, or this is another build of Lockstep: replay with the "
      "program as it was then, and its arguments\n");
  const auto state = replay({"--step", "12", "runs/a"}, program("a", {"saves", "plateau"}));
  refused(state, "plateau.factor");
}

TEST_F(ProgramReplay, WhatCannotBeReplayedIsRefused) {
  run(1, "a", {"saves"});
  run(1, "b", {"saves"});
  const auto named = program("a", {"saves"});
  const auto none = replay({"--step", "12", "runs/a"});
  refused(none, str("replay: runs/a is a run of a program of its own, whose model no config tells; name the "
                    "program after it, as it was started: trainrun replay --step 12 runs/a ",
                    join(named, " "), "\n"));
  refused(replay({"--step", "15", "runs/a"}, named),
          "step 15 is beyond the run: runs/a is recorded up to step 14");
  refused(replay({"--step", "8", "runs/a"}, named),
          "no checkpoint before step 8 in runs/a/ckpt; it holds the steps 8, 12, 14: choose a later step, or "
          "--from-start, which reruns all steps from the initial weights");
  refused(replay({"--step", "12", "runs/a", "--optim.lr=1"}, named),
          "replay: --optim.lr is a config key, but the run is a program's; write the program's own arguments "
          "after it");
  refused(replay({"--step", "12", "--simulate", "2", "runs/a"}, named),
          "is a program, each of whose ranks is a process: use --nproc 2");
  // The arguments of another run.
  refused(replay({"--step", "12", "runs/a"}, program("b", {"saves"})),
          str("replay: the program ended without a train() into ", scratch_.path("runs/a"),
              ": what is replayed is a step of train(), whose `run` is that folder"));
  refused(replay({"--step", "12", "runs/a"}, program("c", {"saves"})),
          "and train() is to write runs/c, which holds no checkpoint: give the program the arguments that "
          "the run "
          "was started with");
  EXPECT_FALSE(std::filesystem::exists("runs/c"));
  refused(replay({"--step", "12", "runs/a"}, program("a", {"own"})), "ended without a train() into ");
  refused(replay({"--step", "12", "runs/a"}, program("a", {"resume=runs/a", "save"})),
          "[checkpoint] trainrun replay writes nothing, and runs/a is to be written at step 15: a loop of "
          "one's own "
          "keeps no rows to compare with");
  write_tiny();
  train({"--nproc", "1", "c.json", "--train.steps=30"});
  refused(replay({"--step", "25", "run"}, named), "replay: runs/run is a run of the config ");
  refused(replay({"--step", "25", "runs/a/ckpt"}), "runs/a/ckpt is a part of the run runs/a: name the run");
  const auto thrown =
      replay({"--step", "12", "--nproc", "2", "runs/a"}, named, {{"LOCKSTEP_FAULT", "throw:rank=1,step=10"}});
  EXPECT_EQ(thrown.code, kExitInternal) << thrown.output;
  EXPECT_HAS(thrown.output, "root cause: rank 1: InternalError at step 10");
}

// The model of a program is in the program alone.
TEST_F(ProgramReplay, GenerateNamesTheProgram) {
  run(1, "a", {});
  const auto result = trainrun({"generate", "runs/a"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(
      result.output,
      "runs/a/ckpt/step-14 was saved by a program of its own, whose model no config says, and generate "
      "makes the model of a config; let the program itself generate, once load_weights(state, "
      "\"runs/a/ckpt/step-14\") has read the checkpoint; in Python lockstep.load(\"runs/a/ckpt/step-14\") "
      "gives its tensors as "
      "arrays\n");
  EXPECT_HAS(trainrun({"generate", "rums"}).output,
             "no run rums: there is neither a folder runs/rums nor rums; ");
}

}  // namespace
}  // namespace lockstep::tests
