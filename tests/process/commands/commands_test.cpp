// The commands around a run, on a real one: plan, show, explain, env, ckpt, generate.
#include <array>
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Commands : public RealRun {
 protected:
  std::string said(std::vector<std::string> words) {
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << join(words, " ") << "\n" << result.output;
    return result.output;
  }
  // The rest of the line of a table that begins with `name`.
  static std::string cell(const std::string& output, const std::string& name) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(output, found, std::regex("\n  " + name + " +([^\n]*)")))
        << "no row " << name << " in:\n"
        << output;
    return found.size() > 1 ? found[1].str() : "";
  }
  static std::string in_parentheses(const std::string& text) {
    return text.substr(text.find('(') + 1, text.rfind(')') - text.find('(') - 1);
  }
};

// What plan says is what the run then holds, on any number of ranks, and its certificate is the run's.
TEST_F(Commands, PlanKeepsItsWord) {
  write_tiny();
  for (int nproc : {1, 3, 4}) {
    std::string name = str("on-", nproc);
    auto plan = said({"plan", "--long", "--nproc", str(nproc), "c.json", "--name=" + name});
    EXPECT_FALSE(std::filesystem::exists("runs/" + name)) << "a plan writes nothing";
    train({"--nproc", str(nproc), "c.json", "--name=" + name, "--train.steps=6"});
    auto log = RunRecord("runs/" + name).log(0);
    EXPECT_HAS(plan, str(name, " on ", nproc, nproc == 1 ? " rank" : " ranks", ", mesh [dp_replicate=", nproc,
                         "]; 28,032 parameters\n"));
    EXPECT_HAS(log, str("state ", in_parentheses(cell(plan, "state")), ", arena ",
                        in_parentheses(cell(plan, "arena")), ", reduction ",
                        in_parentheses(cell(plan, "reduction"))));
    EXPECT_EQ(cell(plan, "micro-batches"), "6 of 2 sequences, in 6 lanes");
    EXPECT_HAS(plan, manifest(name, 6)["certificate"].get<std::string>());
    EXPECT_EQ(cell(plan, "parameters"), "28032");
    EXPECT_HAS(plan, "  <- this plan\n");
  }
}

// Ranks with more micro-batches may run fewer of them together: the fullest is who holds most of all.
TEST_F(Commands, PlanOfRanksThatRunOtherNumbersTogether) {
  write_tiny(32);  // 16 micro-batches, of which 3 ranks run 6, 5, 5
  const auto planned = [&](const std::string& together) {
    return Json::parse(said({"plan", "--json", "--nproc", "3", "c.json", "--compile.together=" + together}));
  };
  const Json apart = planned("1"), joined = planned("5");
  const auto body = [](const Json& plan) {
    for (const Json& region : plan["memory"]["regions"]) {
      EXPECT_GE(region["bytes"], 0) << region;
      if (region["name"] == "forward and backward") return region["bytes"].get<int64_t>();
    }
    return int64_t{0};
  };
  EXPECT_EQ(joined["step"]["together"], 5);
  EXPECT_GT(body(joined), 4 * body(apart));
}

// Rows of every input that are no multiple of 16 leave nothing to multiply in float8.
TEST_F(Commands, Float8OfRowsThatDoNotFitIsRefused) {
  write_tiny();
  const auto refused =
      trainrun({"plan", "c.json", "--model.context=17", "--batch.micro=1", "--train.precision=float8"});
  EXPECT_EQ(refused.code, kExitUser);
  EXPECT_HAS(
      refused.output,
      ": no product of this step runs in float8: rows of an input are multiples of 16 there, and this "
      "one is [1,17,32], 17 rows (samples of a micro-batch, times tokens); choose such a batch.micro, or "
      "train.precision bf16");
}

TEST_F(Commands, ShowPrintsAConfigThatRerunsTheRun) {
  write_tiny();
  auto shown = said({"show", "c.json", "--train.steps=7", "--name=first"});
  EXPECT_EQ(Json::parse(shown)["train"]["steps"], 7);
  scratch_.write("shown.json", shown);
  train({"--nproc", "2", "c.json", "--train.steps=7", "--name=first"});
  EXPECT_EQ(file_text("runs/first/config.json"), shown);
  train({"--nproc", "1", "shown.json", "--name=second"});
  expect_same_run("first", "second");
}

TEST_F(Commands, CkptListsShowsAndVerifies) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--train.steps=40"});
  std::string hash = manifest("run", 40)["state_hash"];
  auto list = said({"ckpt", "ls", "runs/run"});
  EXPECT_HAS(list, "checkpoint");
  EXPECT_HAS(list, "runs/run/ckpt/step-20  ");
  EXPECT_HAS(list, str("[dp_replicate=2]  ", hash, "  newest\n"));
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), 3);
  EXPECT_EQ(said({"ckpt", "ls", "runs/run/ckpt"}), list);
  auto shown = said({"ckpt", "show", "runs/run"});
  EXPECT_HAS(shown, "runs/run/ckpt/step-40\n");
  EXPECT_EQ(cell(shown, "state hash"), hash);
  EXPECT_HAS(cell(shown, "holds"), "84 tensors, 84096 elements, ");
  EXPECT_HAS(cell(shown, "holds"), " KiB in 2 files");
  EXPECT_EQ(cell(shown, "optim.blocks.1.mlp.up.weight.exp_avg_sq"), "f32    [128,32]  2       16384");
  auto same = said({"ckpt", "show", "runs/run/ckpt/step-40/"});
  EXPECT_EQ(same.substr(same.find('\n')), shown.substr(shown.find('\n')));
  EXPECT_EQ(said({"ckpt", "verify", "runs/run"}),
            "runs/run/ckpt/step-20: whole: every checksum and the state hash agree\nruns/run/ckpt/step-40: "
            "whole: every checksum and the "
            "state hash agree\n");
  scratch_.write("runs/run/ckpt/latest", "step-20\n");  // as a kill before it was written leaves it
  EXPECT_EQ(said({"ckpt", "ls", "runs/run"}), list);
  EXPECT_EQ(said({"ckpt", "show", "runs/run"}), shown);
}

TEST_F(Commands, GenerateContinuesAPrompt) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "a rose is a rose is a rose; ";
  scratch_.write("text/roses.txt", text);
  scratch_.write(
      "t.json",
      R"({"name": "run", "model": {"kind": "llama", "vocab": 256, "context": 16, "width": 32, "depth": 1, "heads": 2},
    "data": {"kind": "text", "paths": ["text"]}, "batch": {"global": 16, "micro": 4}, "train": {"steps": 80}, "optim": {"lr": 2e-2, "schedule": {"kind": "cosine", "warmup": 5}}})");
  train({"--nproc", "2", "t.json"});
  EXPECT_EQ(said({"generate", "runs/run", "--prompt", "a rose is", "--tokens=7", "--temperature=0"}),
            "a rose is a rose\n");
  auto drawn = said({"generate", "runs/run", "--prompt=a ", "--tokens=30", "--seed=5"});
  EXPECT_EQ(drawn, said({"generate", "runs/run/ckpt", "--prompt=a ", "--tokens=30", "--seed=5"}));
  EXPECT_EQ(drawn.size(), 33u);
  EXPECT_EQ(said({"generate", "runs/run/ckpt/step-80", "--prompt=abc", "--tokens=0"}), "abc\n");
  auto none = trainrun({"generate", "text"});
  EXPECT_EQ(none.code, kExitUser);
  EXPECT_EQ(none.output,
            "trainrun: text holds no checkpoint; give a run folder (runs/NAME), a ckpt folder or a step-N "
            "folder\n");
}

// A number that its type does not hold is no other number, and 010 is ten.
TEST_F(Commands, NumbersAreReadWholeOrRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"generate", "a", "--seed=99999999999999999999"},
       "--seed is \"99999999999999999999\"; it must be a whole number from -9223372036854775808 to "
       "9223372036854775807; "},
      {{"generate", "a", "--tokens=2.5"}, "--tokens is \"2.5\"; it must be a whole number from 0 to "},
      {{"generate", "a", "--temperature=1e-400"},
       "--temperature is \"1e-400\"; it must be a number from 0 to 1000; "},
      {{"ckpt", "diff", "a", "b", "--tolerance=1e-400"},
       "--tolerance is \"1e-400\"; it must be a number from 0 to 1000000000000; "},
      {{"ckpt", "diff", "a", "b", "--tolerance=-1"}, "--tolerance is \"-1\"; it must be a number from 0 to "},
      {{"replay", "a", "--step=0x10"}, "--step is \"0x10\"; it must be a whole number from "},
      {{"autopsy", "a", "--attempt=0"}, "--attempt is \"0\"; it must be a whole number from 1 to "}};
  for (const auto& [words, answer] : cases) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_EQ(result.output.find("trainrun: " + answer), 0u) << result.output;
  }
  write_tiny();
  train({"c.json", "--train.steps=12"});
  EXPECT_HAS(trainrun({"replay", "run", "--step=010", "--from-start"}).output, "step 10 of runs/run");
}

// What a flag that nobody has, or one that takes no word behind it, leaves behind it makes no second error.
TEST_F(Commands, AMisreadFlagMakesNoSecondError) {
  write_tiny();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"-j", "2", "c.json"},
       "trainrun: command line: \"-j\" is neither a flag nor an override --KEY=VALUE; leave it out\n"},
      {{"plan", "-j", "2", "c.json"},
       "trainrun: command line: \"-j\" is neither a flag nor an override --KEY=VALUE; leave it out\n"},
      {{"--profile", "2000", "c.json"},
       "trainrun: --profile is \"2000\"; it must be a whole number from 1 to 1000; "},
      {{"--dry-run", "--train.stpes", "3", "c.json"},
       "trainrun: command line: unknown key train.stpes in --train.stpes; did you mean train.steps?\n"}};
  for (const auto& [words, answer] : cases) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_EQ(result.output.find(answer), 0u) << result.output;
    EXPECT_EQ(occurrences(result.output, "\n"), 1) << result.output;
  }
  for (const auto& words : std::vector<std::vector<std::string>>{{"--dry-run", "--profile", "3", "c.json"},
                                                                 {"--dry-run", "true", "c.json"},
                                                                 {"plan", "--long", "true", "c.json"}}) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << join(words, " ") << "\n" << result.output;
  }
}

// A first word that is no file and no command is the wrong one, whatever stands behind it.
TEST_F(Commands, WordsOfOtherCommandLinesAreAnsweredWithTheWay) {
  write_tiny();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"infer", "c.json"},
       "there is no command \"infer\": trainrun generate RUN --prompt TEXT writes text; "},
      {{"sample", "runs/x"},
       "there is no command \"sample\": trainrun generate RUN --prompt TEXT writes text; "},
      {{"benchmark", "c.json"},
       "there is no command \"benchmark\": trainrun plan CONFIG predicts a step's time, and a run's log "
       "tells "
       "what it took; the commands are run, plan, "},
      {{"profile", "c.json"}, "there is no command \"profile\": trainrun --profile=N CONFIG traces N steps"},
      {{"lint", "c.json"}, "there is no command \"lint\": trainrun show CONFIG checks a config; "},
      {{"download", "gpt2"},
       "there is no command \"download\": a model is a folder that is here already: trainrun import-hf DIR "
       "--name=NAME reads it; "},
      {{"quantize", "c.json"},
       "there is no command \"quantize\": weights are not kept in 4 or 8 bits in this version; "},
      {{"python3", "train.py"},
       "there is no command \"python3\": a program is named by its file: trainrun train.py; "},
      {{"dance", "c.json"},
       "there is no command \"dance\", nor a config of that name; the commands are run, plan, show, "},
      {{"dance", "runs/x", "--train.steps=3"}, "there is no command \"dance\", nor a config of that name; "},
      {{"--gpu", "h100", "c.json"},
       "unknown key gpu in --gpu; train.device says where the step runs, as in --train.device=cpu or cuda; "
       "--nproc N starts N ranks on a host, each on a GPU of its own; trainrun plan --roofline NAME plans "
       "for "
       "another device\n"},
      {{"c.json", "--compile.backend=cuda"},
       "compile.backend is \"cuda\"; choose native | eager | reference; train.device says where the step "
       "runs, as in "},
      {{"c.json", "--cpu"}, "unknown key cpu in --cpu; train.device says where the step runs, "},
      {{"--workers", "4", "c.json"},
       "unknown key workers in --workers; --nproc N starts N ranks on a host; data is read ahead of the step "
       "without workers\n"}};
  for (const auto& [words, answer] : cases) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, answer);
    EXPECT_EQ(occurrences(result.output, "\n"), 1) << result.output;
  }
}

// Every variable that a run reads, with a value that is none: before a file is written.
TEST_F(Commands, AWrongVariableIsRefusedAtTheStart) {
  write_tiny();
  const std::vector<std::array<std::string, 3>> cases = {
      {"LOCKSTEP_VERIFY", "perhaps", "environment: LOCKSTEP_VERIFY is \"perhaps\"; give 1 (on) or 0 (off)"},
      {"LOCKSTEP_CACHE_LIMIT", "much", "environment: LOCKSTEP_CACHE_LIMIT is \"much\"; give a number of MiB"},
      {"LOCKSTEP_LOG_LIMIT", "-1", "environment: LOCKSTEP_LOG_LIMIT is \"-1\"; give a number of MiB"},
      {"LOCKSTEP_CACHE", "~/cache", "LOCKSTEP_CACHE is \"~/cache\"; ~ is your home in a shell alone"},
      {"LOCKSTEP_CACHE", "s3://b/cache",
       "LOCKSTEP_CACHE is \"s3://b/cache\", an object store, and it is written on "},
      {"LOCKSTEP_LOGS", "fushion", "LOCKSTEP_LOGS: no topic \"fushion\"; nearest: fusion; topics: "},
      {"LOCKSTEP_DEADLINE", "soon",
       "LOCKSTEP_DEADLINE is \"soon\", which is not a positive number, nor two; give "},
      {"LOCKSTEP_VERIFY_COLLECTIVES", "yes", "LOCKSTEP_VERIFY_COLLECTIVES is \"yes\"; use auto, on or off"},
      {"LOCKSTEP_S3_PATIENCE", "1m", "LOCKSTEP_S3_PATIENCE is \"1m\"; it must be seconds, from 0 to 86400"},
      {"LOCKSTEP_SKIP_PASSES", "fushe", "LOCKSTEP_SKIP_PASSES: no pass \"fushe\"; nearest: fuse; passes: "},
      {"LOCKSTEP_SKIP_PASSES", "fuse", "LOCKSTEP_SKIP_PASSES: pass \"fuse\" may not be skipped: "},
      {"LOCKSTEP_ISA", "sse",
       "unknown instruction set \"sse\" in LOCKSTEP_ISA; known: auto, avx512, avx2, plain"},
      {"LOCKSTEP_MEMORY", "much", "LOCKSTEP_MEMORY: "},
      {"LOCKSTEP_FAULT", "bang",
       "LOCKSTEP_FAULT is \"bang\"; write KIND:rank=R,step=S with KIND one of kill, "}};
  for (const auto& [name, value, answer] : cases)
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"--nproc", "2", "c.json"}, {"--simulate", "2", "c.json"}, {"/bin/true"}}) {
      const auto result = trainrun(words, {{name, value}});
      EXPECT_EQ(result.code, kExitUser) << name << " " << result.output;
      EXPECT_EQ(result.output.find("trainrun: " + answer), 0u) << result.output;
      EXPECT_FALSE(std::filesystem::exists("runs")) << name;
    }
}

TEST_F(Commands, ExplainAndEnv) {
  EXPECT_HAS(said({"explain", "optim.clip"}), "optim.clip: largest global norm of the gradients");
  EXPECT_HAS(said({"explain", "width"}), "model.width: features per token");
  EXPECT_HAS(said({"explain", "model.eps"}),
             ", more than 0, default 1e-05; 1e-06 of qwen, gemma, t5, vit; 1e-12 of bert, ");
  EXPECT_HAS(said({"explain", "model.classes"}), "model.classes: classes of a text\n  of vit");
  EXPECT_HAS(said({"explain", "body"}), "A part of the typed program: head (gathers of weights)");
  EXPECT_HAS(said({"explain", "75"}), "Exit code 75");
  for (const char* elsewhere : {"pipeline", "ema", "early_stopping", "max_seq_length", "flash_attention",
                                "accumulate", "loss_scale", "eval", "dpo", "qlora"})
    EXPECT_HAS(said({"explain", elsewhere}), str(elsewhere, ": "));
  EXPECT_HAS(said({"explain", "cross_entropy"}), "op cross_entropy\n");
  EXPECT_HAS(said({"explain", "plateau"}), "optim.schedule.kind=plateau: how the learning rate falls");
  EXPECT_HAS(said({"explain", "val_loss"}),
             "Columns of metrics.jsonl, of the samples that data.validation keeps");
  EXPECT_HAS(said({"explain", "solve"}), "A function of matrices, [..., n, n], of at most 64 rows");
  const auto unknown = trainrun({"explain", "zzqx"});
  EXPECT_EQ(unknown.code, kExitUser);
  EXPECT_HAS(unknown.output, "Python's help(lockstep.NAME) explains functions that are not ops");
  auto env = said({"env"});
  for (const char* part : {"lockstep 0.", "processor: ", "LOCKSTEP_CACHE", KERNEL_CACHE, "LOCKSTEP_DEADLINE",
                           "collectives", "\nCUDA:"})
    EXPECT_HAS(env, part);
}

}  // namespace
}  // namespace lockstep::tests
