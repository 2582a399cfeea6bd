// What trainrun gives its own runs, programs have by train(): early stop, best checkpoint, policies, event
// files, traces, exit code 80, plans, reports.
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class ProgramLoop : public RealRun {
 protected:
  // Alone, or on ranks of trainrun.
  Result program(int nproc, std::vector<std::string> words, Variables variables = {}) {
    words.insert(words.begin(), LOOP_PROGRAM);
    words.emplace_back("--train.device=cpu");
    if (nproc > 0) {
      words.insert(words.begin(), {"--nproc", str(nproc)});
      return trainrun(words, std::move(variables));
    }
    variables.emplace("LOCKSTEP_CACHE", KERNEL_CACHE);
    Process process(words, scratch_.path("out"), variables);
    const int code = process.wait(60);
    return {code, process.output()};
  }
  static std::string state_of(const Result& result, int code = kExitOk) {
    EXPECT_EQ(result.code, code) << result.output;
    static const std::regex line(R"((^|\n)step (\d+: state [0-9a-f]{32})\n)");
    std::smatch found;
    EXPECT_TRUE(std::regex_search(result.output, found, line)) << result.output;
    return found.empty() ? "" : found[2].str();
  }
  static std::vector<std::string> best(const std::string& name) {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator("runs/" + name + "/best"))
      if (entry.is_directory()) out.push_back(entry.path().filename());
    return out;
  }
  static std::vector<std::string> files(const std::string& name, const std::string& begin) {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator("runs/" + name))
      if (const std::string file = entry.path().filename(); file.starts_with(begin)) out.push_back(file);
    return out;
  }
};

TEST_F(ProgramLoop, StopsEarlyAndKeepsTheBestOnAnyRanks) {
  const auto alone = program(0, {"runs/a", "100", "best"});
  const std::string want = state_of(alone);
  EXPECT_HAS(alone.output, "done early, after step ");
  EXPECT_HAS(alone.output, " of 100: val_loss was not below ");
  EXPECT_HAS(alone.output, " in 2 validations (patience); checkpoint in runs/a/ckpt");
  EXPECT_HAS(alone.output, "step 3: validation loss ");
  EXPECT_TRUE(
      std::regex_search(alone.output, std::regex(R"(step 3: validation loss [0-9.e-]+, mae [0-9.e-]+\n)")));
  EXPECT_TRUE(std::regex_search(
      alone.output,
      std::regex(R"(the best validation: val_loss [0-9.e-]+, of step \d+; its state is in runs/a/best\n)")));
  EXPECT_EQ(state_of(program(2, {"runs/b", "100", "best"})), want);
  state_of(program(2, {"runs/c", "10", "best"}));
  EXPECT_EQ(state_of(program(1, {"runs/c", "100", "best"})), want);
  const auto losses = column(metrics("a"), "val_loss");
  ASSERT_GE(losses.size(), 4u);
  EXPECT_LT(losses.size(), 12u);
  EXPECT_EQ(column(metrics("b"), "val_loss"), losses);
  EXPECT_FALSE(column(metrics("a"), "val_mae").empty());
  const std::string third_last = losses[losses.size() - 3];
  EXPECT_EQ(best("a"), std::vector<std::string>{"step-" + third_last.substr(0, third_last.find(' '))});
  EXPECT_EQ(best("b"), best("a"));
  // Stopped at step 10, where a run that goes on has no validation: the one there counts for nothing.
  EXPECT_EQ(best("c"), best("a"));
  const auto again = program(1, {"runs/a", "100", "best"});
  EXPECT_EQ(state_of(again), want);
  EXPECT_HAS(again.output, "nothing to do: runs/a/ckpt holds step ");
  EXPECT_HAS(again.output, "raise patience to go on");
}

TEST_F(ProgramLoop, WhatIsFinishedAndWhoIsIdleIsTold) {
  const auto idle = program(5, {"runs/a", "3", "best"});
  EXPECT_EQ(occurrences(idle.output, " idle "), 1) << idle.output;
  EXPECT_HAS(idle.output,
             "1 of 5 ranks is idle in forward and backward: a step has 4 micro-batches, for 4 ranks at most; "
             "start 4, or make more of them: a smaller micro_batch, or a larger global_batch\n");
  EXPECT_HAS(program(5, {"x", "3", "own"}).output, "1 of 5 ranks is idle in forward and backward: ");
  const auto again = program(1, {"runs/a", "3", "best"});
  EXPECT_HAS(
      again.output,
      "nothing to do: runs/a/ckpt holds step 3 of 3; raise steps to go on, or give the run another name to "
      "begin anew\n");
  EXPECT_EQ(again.output.find(" idle "), std::string::npos) << again.output;
  EXPECT_HAS(
      trainrun({"--profile=2", LOOP_PROGRAM, "runs/a", "3", "best", "--train.device=cpu"}).output,
      "to begin anew. No step is traced: another folder of the run (run= of train()) is traced anew\n");
  const auto own = program(0, {"x", "1", "resume=runs/a"});
  EXPECT_HAS(
      own.output,
      "resumed from runs/a/ckpt/step-3 (step 3); a loop that ends there has nothing left to do: more steps "
      "go on, another folder begins anew\n");
}

TEST_F(ProgramLoop, ItsBestStateIsReadAndStartedFrom) {
  const auto whole = program(0, {"runs/a", "100", "best"});
  ASSERT_EQ(whole.code, kExitOk) << whole.output;
  const std::string step = best("a").at(0), number = step.substr(5);
  const Json saved = Json::parse(file_text("runs/a/best/" + step + "/manifest.json"));
  const std::string hash = saved["state_hash"];
  auto resumed = [&](const std::string& path) { return program(0, {"x", "1", "resume=" + path}); };
  for (const std::string path : {std::string("runs/a/best"), "runs/a/best/" + step})
    EXPECT_HAS(resumed(path).output, "resumed " + number + ": state " + hash);
  EXPECT_HAS(resumed("runs/new").output, "resumed 0: state ");
  const auto typo = resumed("runs/a/bets");
  EXPECT_EQ(typo.code, kExitUser);
  EXPECT_HAS(typo.output, "[checkpoint] runs/a/bets is not there; did you mean runs/a/best?");
  const auto runs = resumed("runs");
  EXPECT_EQ(runs.code, kExitUser);
  EXPECT_HAS(runs.output, "[checkpoint] runs holds runs, as runs/a: name one of them");
  const auto written = program(0, {"x", "1", "resume=runs/a/best", "save"});
  EXPECT_EQ(written.code, kExitUser);
  EXPECT_HAS(written.output,
             "[checkpoint] runs/a/best holds checkpoints that are read, and none is written beside");
  // Weights without the optimizer, on any ranks; the first step's loss is that of the weights.
  const auto tuned = program(1, {"runs/t", "4", "from=runs/a/best"});
  EXPECT_HAS(tuned.output, "initial weights from runs/a/best/" + step);
  EXPECT_EQ(state_of(program(3, {"runs/u", "4", "from=runs/a/best"})), state_of(tuned));
  EXPECT_LT(std::stod(metrics("t")[0].at("loss")), std::stod(metrics("a")[0].at("loss")) / 2);
  EXPECT_EQ(program(0, {"runs/t", "6", "from=runs/a/best"}).output.find("initial weights"), std::string::npos)
      << "a run that goes on has its own";
  const auto none = program(2, {"runs/v", "4", "from=runs/none"});
  EXPECT_EQ(none.code, kExitUser);
  EXPECT_HAS(none.output,
             "[load_weights] there is no runs/none; name a run, its best folder, a step folder, or");
  const auto other = program(2, {"runs/v", "4", "from=" + scratch_.path("other.safetensors")});
  EXPECT_EQ(other.code, kExitUser) << other.output;
}

TEST_F(ProgramLoop, AValidationThatIsNotFiniteEndsTheRunOrIsTold) {
  const std::string words =
      "step 3: the validation loss is nan; the data is not finite: field \"x\" is nan at [0] of sample 5 of "
      "the "
      "batch (sample 5 of the data); then, in micro-batch 1 (rank 0), ";
  for (int ranks : {1, 2}) {
    const std::string run = str("runs/v", ranks);
    const auto stopped = program(ranks, {run, "10", "unsound"});
    EXPECT_EQ(stopped.code, kExitUser) << stopped.output;
    EXPECT_HAS(stopped.output, words);
    EXPECT_HAS(stopped.output,
               str("; the state of the step is saved in ", run,
                   "/ckpt. Mend the sample, or take it out of the data; on_nonfinite=skip goes on "
                   "with such validations"));
    EXPECT_TRUE(std::filesystem::exists(run + "/ckpt/step-3"));
    EXPECT_EQ(metrics(str("v", ranks)).back().at("val_loss"), "\"nan\"");
  }
  const auto told = program(2, {"runs/t", "10", "unsound", "word=skip"});
  state_of(told);
  EXPECT_HAS(told.output, words);
  EXPECT_HAS(told.output, "; it counts as no better, and the run goes on (on_nonfinite is skip)");
  const auto best = program(2, {"runs/u", "10", "unsound", "best", "word=skip"});
  state_of(best);
  EXPECT_HAS(best.output, "done early, after step 6 of 10: val_loss was not finite in 2 validations");
  EXPECT_FALSE(std::filesystem::exists("runs/u/best"));
}

TEST_F(ProgramLoop, PassesOverWhatIsNotFinite) {
  const auto stopped = program(2, {"runs/n", "10", "nan"});
  EXPECT_EQ(stopped.code, kExitUser) << stopped.output;
  EXPECT_HAS(stopped.output, "step 5: the loss is nan and the gradient norm is ");
  EXPECT_HAS(
      stopped.output,
      "; the data is not finite: field \"x\" is nan at [0] of sample 0 of the batch (sample 64 of the data); "
      "then, in micro-batch 0 (rank 0), ");
  EXPECT_HAS(stopped.output, "the last checkpoint is untouched. Mend the sample, or take it out of the data");
  const auto alone = program(0, {"runs/a", "10", "skip"});
  const std::string want = state_of(alone);
  EXPECT_HAS(alone.output, "step 5 is passed over: the loss is nan");
  EXPECT_EQ(state_of(program(2, {"runs/b", "10", "skip"})), want);
  EXPECT_EQ(metrics("b").back().at("passed_over"), "1");
}

TEST_F(ProgramLoop, WritesEventsTracesAndAReport) {
  const auto traced =
      trainrun({"--nproc", "2", "--profile=2", LOOP_PROGRAM, "runs/a", "12", "events", "--train.device=cpu"});
  ASSERT_EQ(traced.code, kExitOk) << traced.output;
  EXPECT_HAS(traced.output, "trace in runs/a/trace-3-4.json");
  EXPECT_EQ(files("a", "trace-3-4.json").size(), 1u);
  EXPECT_EQ(files("a", "events.out.tfevents.").size(), 1u);
  EXPECT_HAS(traced.output, "step 10: predicted ");
  EXPECT_HAS(traced.output, " samples/s  ETA ");
  EXPECT_HAS(traced.output, "certificate ");
  const auto rows = metrics("a");
  ASSERT_EQ(rows.size(), 4u);
  for (const char* name : {"loss", "mae", "lr", "step_ms", "busy_ms_max", "samples_per_s", "certificate"})
    EXPECT_TRUE(rows[1].count(name)) << name;
  const auto told = trainrun({"report", "runs/a"});
  EXPECT_EQ(told.code, kExitOk) << told.output;
  EXPECT_HAS(file_text("runs/a/report.html"), "a program of its own");
  state_of(program(1, {"runs/a", "14", "events"}));
  const auto replayed = trainrun({"replay", "--step", "14", "runs/a"});
  EXPECT_EQ(replayed.code, kExitUser) << replayed.output;
  EXPECT_HAS(replayed.output, "runs/a is a run of a program of its own, whose model no config tells");
}

TEST_F(ProgramLoop, ASignalSavesAndLeavesWith80) {
  std::vector<std::string> words{LOOP_PROGRAM, "runs/a", "1000000", "slow", "--train.device=cpu"};
  auto stop = [&](std::unique_ptr<Process> process, const std::string& name) {
    EXPECT_TRUE(until(30, [&] { return metrics(name).size() > 2; })) << process->output();
    kill(process->pid(), SIGTERM);
    const int code = process->wait(60);
    return Result{code, process->output()};
  };
  const auto alone = stop(
      std::make_unique<Process>(words, scratch_.path("out"), Variables{{"LOCKSTEP_CACHE", KERNEL_CACHE}}),
      "a");
  EXPECT_EQ(alone.code, kExitStopped) << alone.output;
  EXPECT_HAS(alone.output, "saved in runs/a/ckpt; the same command goes on from there");
  EXPECT_EQ(alone.output.find("back"), std::string::npos);
  words[1] = "runs/b";
  words.insert(words.begin(), {"--nproc", "2"});
  const auto ranks = stop(start(words), "b");
  EXPECT_EQ(ranks.code, kExitStopped) << ranks.output;
  words[3] = "runs/c";
  words.emplace_back("back");
  const auto returned = stop(start(words), "c");
  EXPECT_HAS(returned.output, "back, stopped");
  // Both go on, on other ranks, with the bits of a run that was never stopped.
  const std::string steps = str(std::max(last_step("a"), last_step("b")) + 10);
  const std::string want = state_of(program(0, {"runs/whole", steps}));
  EXPECT_EQ(state_of(program(2, {"runs/a", steps})), want);
  EXPECT_EQ(state_of(program(1, {"runs/b", steps})), want);
}

TEST_F(ProgramLoop, IsPlannedWithoutARun) {
  const std::vector<std::string> words{LOOP_PROGRAM, "runs/a", "10", "best", "--train.device=cpu"};
  auto plan = [&](std::vector<std::string> flags, Variables variables = {}) {
    flags.insert(flags.begin(), "plan");
    flags.insert(flags.end(), words.begin(), words.end());
    return trainrun(flags, std::move(variables));
  };
  const auto screen = plan({"--nproc", "4"});
  EXPECT_EQ(screen.code, kExitOk) << screen.output;
  for (const char* part : {"loop_program on 4 ranks, mesh [dp_replicate=4]; 9 parameters\n  fits      yes",
                           "\n  memory    ", "\n  speed     ", " samples/s, ", "\n  limits    "})
    EXPECT_HAS(screen.output, part);
  EXPECT_FALSE(std::filesystem::exists("runs/a")) << "nothing was trained";
  const auto json = plan({"--nproc", "2", "--json"});
  const Json told = Json::parse(json.output, nullptr, false);
  ASSERT_TRUE(told.is_object()) << json.output;
  EXPECT_EQ(told["model"]["parameters"], 9);
  EXPECT_EQ(told["step"]["samples"], 16);
  EXPECT_EQ(told["mesh"]["shape"], Json({2}));
  // The evaluation lies in the step's memory.
  const auto memory = [&](const std::vector<std::string>& modes) {
    std::vector<std::string> all{"plan", "--json", LOOP_PROGRAM, "runs/a", "10", "--train.device=cpu"};
    all.insert(all.end(), modes.begin(), modes.end());
    const Json plan = Json::parse(trainrun(all).output, nullptr, false);
    return plan.is_object() ? plan["memory"]["device"] : Json::object();
  };
  const Json measured = memory({"best"}), alone = memory({});
  EXPECT_GT(measured.value("evaluation_within", 0), 0) << measured.dump();
  EXPECT_EQ(alone.value("evaluation_within", -1), 0) << alone.dump();
  const auto drawn = trainrun({"show", "--graph", "step.svg", "--roofline", "cpu", "--nproc", "4",
                               LOOP_PROGRAM, "runs/a", "10", "--train.device=cpu"});
  EXPECT_EQ(drawn.code, kExitOk) << drawn.output;
  EXPECT_HAS(drawn.output, "step.svg: a step of rank 0, predicted by the roofline cpu: ");
  EXPECT_HAS(file_text("step.svg"), "loop_program on 4 ranks, mesh [dp_replicate=4]");
  const auto shown = trainrun({"show", LOOP_PROGRAM});
  EXPECT_EQ(shown.code, kExitUser);
  EXPECT_HAS(shown.output,
             "is a program, which has no config: show --graph FILE.svg draws its step, and trainrun plan ");
  // What is planned is what runs.
  const auto run = program(2, {"runs/r", "10", "best"});
  EXPECT_HAS(run.output, "certificate " + told["certificate"].get<std::string>());
  EXPECT_HAS(plan({"--nproc", "2", "--program", "--rank", "1"}).output,
             "program of rank 1, mesh [dp_replicate=2]: ");
  const auto beyond = plan({"--program", "--rank", "1"});
  EXPECT_EQ(beyond.code, kExitUser) << beyond.output;
  EXPECT_HAS(beyond.output, "--rank is 1, and the ranks of this plan are 0 to 0");
  const auto small = plan({"--memory", "1MB"});
  EXPECT_EQ(small.code, kExitUser) << small.output;
  EXPECT_HAS(small.output, "loop_program does not fit on 1 rank: the fullest one needs ");
  EXPECT_HAS(small.output, "take a smaller micro_batch");
  const auto own = trainrun({"plan", LOOP_PROGRAM, "runs/a", "10", "own", "--train.device=cpu"});
  EXPECT_EQ(own.code, kExitOk) << own.output;
  EXPECT_HAS(own.output, "loop_program on 1 rank, ");
  EXPECT_EQ(own.output.find("compiled"), std::string::npos) << "a loop of its own does not begin";
  const auto none = trainrun({"plan", "/bin/true"});
  EXPECT_EQ(none.code, kExitUser) << none.output;
  EXPECT_HAS(none.output, "/bin/true ended without compiling a step");
  EXPECT_HAS(none.output, "a plan is of the step that train() or compile() is given");
}

TEST_F(ProgramLoop, WhatDoesNotFitIsRefusedBeforeItTakesMemory) {
  const auto small = program(0, {"runs/a", "10"}, {{"LOCKSTEP_MEMORY", "1KiB"}});
  EXPECT_EQ(small.code, kExitUser) << small.output;
  EXPECT_HAS(small.output, "the program does not fit on this host: its rank needs ");
  EXPECT_HAS(small.output, "(LOCKSTEP_MEMORY)");
}

TEST_F(ProgramLoop, OptionsThatCannotBeAreRefusedInTheirOwnWords) {
  const auto word = program(0, {"runs/a", "10", "word=skipp"});
  EXPECT_EQ(word.code, kExitUser) << word.output;
  EXPECT_HAS(word.output,
             "[train] on_nonfinite is \"skipp\"; choose stop | skip | rewind; did you mean skip?");
  const auto patience = program(0, {"runs/a", "10", "patience"});
  EXPECT_EQ(patience.code, kExitUser) << patience.output;
  EXPECT_HAS(patience.output, "[train] patience goes by validations, and there is no validation: give one");
  EXPECT_HAS(program(0, {"runs/a", "0"}).output, "[train] steps is 0; it must be ");
}

TEST_F(ProgramLoop, ARunOfAConfigStopsEarlyToo) {
  write_tiny();
  const std::vector<std::string> more{"c.json", "--train.eval_every=3", "--train.min_delta=100",
                                      "--train.patience=2", "--checkpoint.best=true"};
  auto on = [&](const std::string& nproc, const std::string& name, const std::string& steps) {
    std::vector<std::string> words{"--nproc", nproc};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--name=" + name, "--train.steps=" + steps});
    return trainrun(words);
  };
  const auto alone = on("1", "one", "100");
  EXPECT_EQ(alone.code, kExitOk) << alone.output;
  EXPECT_HAS(alone.output, "done early, after step 9 of 100: val_loss was not below ");
  EXPECT_HAS(alone.output, ", of step 3, by more than 100, in 2 validations (train.patience)");
  on("2", "two", "7");
  EXPECT_EQ(on("2", "two", "100").code, kExitOk);
  EXPECT_EQ(last_step("one"), 9);
  // What is kept is of the least loss, though none was better by so much that the wait would have ended.
  std::string least, step;
  for (const auto& line : metrics("one"))
    if (auto found = line.find("val_loss");
        found != line.end() && (least.empty() || std::stod(found->second) < std::stod(least)))
      least = found->second, step = line.at("step");
  EXPECT_NE(step, "3") << "the loss falls";
  EXPECT_EQ(best("one"), std::vector<std::string>{"step-" + step});
  EXPECT_EQ(best("two"), best("one"));
  const auto again = on("1", "one", "100");
  EXPECT_EQ(again.code, kExitOk) << again.output;
  EXPECT_HAS(again.output, "nothing to do: ");
  EXPECT_HAS(again.output, "raise train.patience to go on");
  const auto shown = trainrun({"ckpt", "ls", "runs/one/best"});
  EXPECT_HAS(shown.output, "step-" + step);
  // Others start from it, write it out, and are told where it is no run.
  const auto tuned =
      trainrun({"c.json", "--name=tuned", "--train.steps=2", "--train.init_from=runs/one/best"});
  EXPECT_EQ(tuned.code, kExitOk) << tuned.output;
  EXPECT_HAS(tuned.output, "initial weights from runs/one/best");
  const auto same =
      trainrun({"c.json", "--name=same", "--train.steps=2", "--train.init_from=runs/one/best/step-" + step});
  EXPECT_EQ(final_hash("same"), final_hash("tuned"));
  for (const std::string path : {std::string("runs/one/best"), "runs/one/best/step-" + step}) {
    const std::string to = path.ends_with("best") ? "hf-best" : "hf-step";
    const auto written = trainrun({"export-hf", path, to});
    EXPECT_EQ(written.code, kExitOk) << written.output;
    EXPECT_HAS(written.output, "runs/one/best/step-" + step + " -> " + to);
  }
  EXPECT_TRUE(file_text("hf-best/model.safetensors") == file_text("hf-step/model.safetensors"));
  for (const char* path : {"runs/one/best", "runs/one/ckpt"}) {
    const auto told = trainrun({"report", path});
    EXPECT_EQ(told.code, kExitUser);
    EXPECT_EQ(told.output, str("trainrun: ", path, " is a part of the run runs/one: name the run\n"));
  }
}

TEST_F(ProgramLoop, ABestOneNeedsValidations) {
  write_tiny();
  struct Case {
    std::vector<std::string> words;
    const char* said;
  };
  for (const Case& wrong :
       {Case{{"--train.patience=2"},
             "train.patience is 2, which counts validations, and train.eval_every is 0"},
        Case{{"--checkpoint.best=true", "--data.validation=0"},
             "checkpoint.best is true, which goes by validations, and data.validation is 0"},
        Case{{"--train.min_delta=1"},
             "train.min_delta is 1, but it belongs to train.patience, which is not set: the best checkpoint "
             "is "
             "of the best value, by however little; leave it out, or set train.patience"},
        Case{{"--checkpoint.best=true", "--train.monitor=val_acc"},
             "train.monitor is \"val_acc\", which no validation measures; it measures val_loss, "
             "val_perplexity"},
        Case{{"--checkpoint.best=true", "--train.monitor=val_perplexty"},
             "; did you mean val_perplexity?"}}) {
    std::vector<std::string> words{"--nproc", "1", "c.json", "--train.steps=2"};
    words.insert(words.end(), wrong.words.begin(), wrong.words.end());
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, wrong.said);
    EXPECT_EQ(result.output.find("step 1"), std::string::npos) << "it is told before a step";
  }
  const auto known = trainrun({"--nproc", "1", "c.json", "--train.steps=2", "--checkpoint.best=true",
                               "--train.monitor=val_perplexity", "--train.eval_every=1", "--name=p"});
  EXPECT_EQ(known.code, kExitOk) << known.output;
  EXPECT_EQ(column(metrics("p"), "val_perplexity").size(), 2u);
  EXPECT_FALSE(best("p").empty());
}

}  // namespace
}  // namespace lockstep::tests
