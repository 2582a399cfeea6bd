// trainrun plan as a process: text and JSON of one run agree, a 70-billion-parameter llama on 1,024 ranks
// within its bounds, and what is refused.
#include <sys/resource.h>
#include <sys/stat.h>
#include <regex>

#include "core/base/json.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class PlanCommand : public RealRun {
 protected:
  // CPU seconds of all ended children so far, and the most that one of them held, bytes.
  static std::pair<double, int64_t> spent() {
    rusage usage{};
    getrusage(RUSAGE_CHILDREN, &usage);
    auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return {seconds(usage.ru_utime) + seconds(usage.ru_stime), int64_t{usage.ru_maxrss} * 1024};
  }
  Json json_of(std::vector<std::string> words, int code = kExitOk) {
    words.insert(words.begin(), {"plan", "--json"});
    auto result = trainrun(words, {{"LOCKSTEP_VERIFY", "0"}});
    EXPECT_EQ(result.code, code) << result.output;
    return Json::parse(result.output.substr(0, result.output.find("\ntrainrun: ")), nullptr, false);
  }
};

// 80 layers, 8192 wide, on 1,024 ranks: under 30 s and under 4 GiB, on one core.
TEST_F(PlanCommand, SeventyBillionParametersOnAThousandRanks) {
  scratch_.write(
      "llama.json",
      R"({"name": "llama_70b", "model": {"kind": "llama", "vocab": 128256, "context": 8192, "width": 8192,
    "depth": 80, "heads": 64, "kv_heads": 8, "hidden": 28672}, "data": {"kind": "tokens", "paths": ["tokens.bin"]},
    "batch": {"global": 1024, "micro": 1, "lanes": 128}, "train": {"precision": "bf16", "device": "cuda"}})");
  struct Case {
    const char *shape, *names;
    int code;
  };
  for (const Case& on : {Case{"[1024]", "[dp_replicate]", kExitUser},
                         Case{"[8,16,8]", "[dp_replicate,dp_shard,tp]", kExitOk}}) {
    const double before = spent().first;
    Json plan = json_of(
        {"--nproc", "1024", "llama.json", str("--mesh.shape=", on.shape), str("--mesh.dim_names=", on.names)},
        on.code);
    ASSERT_TRUE(plan.is_object());
    auto [after, held] = spent();
#ifdef NDEBUG
    EXPECT_LT(after - before, 30) << on.shape;
#endif
    EXPECT_LT(held, int64_t{4} << 30) << on.shape;
    EXPECT_EQ(plan["ranks"], 1024);
    EXPECT_EQ(plan["model"]["parameters"], 70553706496);
    EXPECT_LT(plan["tensors"].size(), 40u) << "equal layers share a row";
    // 6 per parameter and token at least, and attention.
    EXPECT_GT(plan["step"]["flops"].get<double>(), 6 * 69.5e9 * 1024 * 8192);
    EXPECT_LT(plan["step"]["flops"].get<double>(), 8 * 70.6e9 * 1024 * 8192);
    EXPECT_EQ(plan["prediction"]["roofline"], "h200");
    EXPECT_EQ(plan["prediction"]["beyond_node"], true);
    EXPECT_GT(plan["prediction"]["step"].get<double>(), 0);
    EXPECT_FALSE(plan["collectives"].empty());
  }
}

TEST_F(PlanCommand, TheProgramOfARankIsPrinted) {
  write_tiny();
  const std::vector<std::string> words{"plan", "--nproc", "2", "c.json", "--train.device=cpu", "--program"};
  const auto first = trainrun(words);
  EXPECT_EQ(first.code, kExitOk);
  for (const char* part : {"program of rank 0, mesh [dp_replicate=2]: ", "\nphase body: ",
                           "\neach step, in order\n", "start all_to_all \"exchange 0"})
    EXPECT_HAS(first.output, part);
  auto other = words;
  other.back() = "--listing";
  const auto listed = trainrun(other);
  EXPECT_EQ(listed.code, kExitOk);
  EXPECT_HAS(listed.output, "program rank 0 mesh \"[dp_replicate=2]\" micro_batches ");
  EXPECT_TRUE(listed.output.ends_with("\nend\n"));
  other = words;
  other.insert(other.end(), {"--rank", "1"});
  EXPECT_HAS(trainrun(other).output, "program of rank 1, mesh [dp_replicate=2]: ");
  other.back() = "2";
  const auto beyond = trainrun(other);
  EXPECT_EQ(beyond.code, kExitUser);
  EXPECT_HAS(beyond.output,
             "--rank is 2, and the ranks of this plan are 0 to 1; give one of them, or a larger --nproc");
  other = words;
  other.push_back("--compile.backend=reference");
  const auto reference = trainrun(other);
  EXPECT_EQ(reference.code, kExitOk) << reference.output;
  EXPECT_HAS(reference.output, "\n    evaluated ");
}

TEST_F(PlanCommand, TextAndJsonAreOfOnePlan) {
  write_tiny();
  auto text = trainrun({"plan", "--long", "--nproc", "3", "c.json", "--train.device=cpu"}).output;
  Json json = json_of({"--nproc", "3", "c.json", "--train.device=cpu"});
  ASSERT_TRUE(json.is_object());
  for (const char* part : {"state", "arena", "reduction"})
    EXPECT_HAS(text, str("\n  ", part, std::string(26 - std::string(part).size(), ' '),
                         json["memory"][part].get<int64_t>(), " bytes ("));
  EXPECT_HAS(text, json["certificate"].get<std::string>());
  EXPECT_HAS(text,
             "  driver and libraries      at most 268435456 bytes (256.00 MiB)\n  communicators (1)         "
             "at most 16777216 bytes (16.00 MiB)\n");
  const auto snapshot = json["memory"]["state"].get<int64_t>();
  EXPECT_HAS(text, str("\n  snapshot of a save        at most ", snapshot, " bytes ("));
  EXPECT_EQ(
      json["memory"]["device"]["total"].get<int64_t>() - json["memory"]["device"]["exact"].get<int64_t>(),
      268435456 + 16777216 + snapshot);
  EXPECT_EQ(trainrun({"plan", "--long", "c.json", "--train.device=cpu", "--checkpoint.async=false"})
                .output.find("snapshot of a save"),
            std::string::npos);
  EXPECT_EQ(json["memory"]["device"]["fits"], nullptr);
  EXPECT_HAS(text, "predicted step time, by the roofline cpu (");
  EXPECT_EQ(json["prediction"]["roofline"], "cpu");
  EXPECT_EQ(json["prediction"]["beyond_node"], false);
  EXPECT_EQ(json["collectives"].size(), 3u);
  for (const auto& row : json["collectives"]) EXPECT_EQ(row["dims"], "dp_replicate");
  EXPECT_EQ(json["utilisation"][2].dump(), R"({"ranks":3,"micro_batches":2,"used":1.0})");
}

TEST_F(PlanCommand, ARooflineOfOnesOwnDecidesTheTime) {
  write_tiny();
  auto file = [](double factor) {
    return str(R"({"name": "slow", "contraction": {"fp32": )", 1e6 * factor, R"(}, "memory": )", 1e6 * factor,
               R"(, "inside": {"bandwidth": 1e9}, "ranks_per_node": 1})");
  };
  scratch_.write("slow.json", file(1));
  scratch_.write("slower.json", file(0.5));
  Json slow = json_of({"c.json", "--roofline=slow.json"}),
       slower = json_of({"c.json", "--roofline=slower.json"});
  EXPECT_NEAR(slower["prediction"]["step"].get<double>() / slow["prediction"]["step"].get<double>(), 2, 1e-3);
  EXPECT_EQ(json_of({"c.json", "--nproc", "2", "--roofline=slow.json"})["prediction"]["beyond_node"], true);
  scratch_.write("bad.json", R"({"nam": "x"})");
  auto bad = trainrun({"plan", "c.json", "--roofline=bad.json"});
  EXPECT_EQ(bad.code, kExitUser);
  EXPECT_EQ(bad.output,
            "trainrun: bad.json: 6 errors\n  unknown key nam; did you mean name?\n  name is missing\n  "
            "contraction is missing\n"
            "  memory is missing\n  inside is missing\n  ranks_per_node is missing\n");
}

// Eight lines that a person reads, and whether the data is there, which need not be.
TEST_F(PlanCommand, OneScreenWithoutData) {
  write_tiny();
  const auto plan = trainrun(
      {"plan", "--nproc", "2", "c.json", "--train.device=cpu", "--data.paths=[\"nowhere/at-all.txt\"]"});
  EXPECT_EQ(plan.code, kExitOk) << plan.output;
  EXPECT_EQ(occurrences(plan.output, "\n"), 9) << plan.output;
  for (const char* part :
       {"run on 2 ranks, mesh [dp_replicate=2]; 28,032 parameters\n",
        "\n  fits      yes, on this host: 2 ranks take at most ", "\n  memory    at most ", "\n  step      ",
        " predicted by the roofline cpu\n", "\n  speed     ", " tokens/s, ", " of its peak\n",
        "\n  time      ", "\n  limits    ",
        "\n  data      not there: data.paths: nowhere/at-all.txt does not exist; ", "\n  more      --long: "})
    EXPECT_HAS(plan.output, part);
  EXPECT_HAS(trainrun({"plan", "c.json", "--train.device=cpu"}).output, "\n  data      there: 1 file of ");
  const auto many = trainrun({"plan", "--nproc", "128", "c.json", "--train.device=cpu"});
  EXPECT_HAS(many.output, "on this host: 64 of the 128 ranks take ");
  EXPECT_HAS(many.output, " (64 a host, by the roofline cpu; mesh.ranks_per_node says otherwise)\n");
  EXPECT_HAS(many.output, " a rank: driver and libraries at most 256.00 MiB, ");
  EXPECT_EQ(json_of({"c.json", "--train.device=cpu", "--data.paths=[]"})["data"],
            "none named yet: data.paths is empty");
  EXPECT_EQ(trainrun({"plan", "--long", "--nproc", "2", "c.json", "--train.device=cpu",
                      "--data.paths=[\"nowhere/at-all.txt\"]"})
                .code,
            kExitOk);
}

// On the host's memory a limit is what --memory says; the table is printed before the refusal, in JSON too.
TEST_F(PlanCommand, FitsOrNot) {
  write_tiny();
  auto fits = trainrun({"plan", "--long", "c.json", "--train.device=cpu", "--memory=64GiB"});
  EXPECT_EQ(fits.code, kExitOk);
  EXPECT_HAS(fits.output, "memory of the fullest rank, with its libraries\n");
  EXPECT_HAS(fits.output, "\n  it fits\n");
  // A batch of 12 in one micro-batch takes more than with a budget of activations, which is nearest, since no
  // bit changes.
  Json whole = json_of({"c.json", "--train.device=cpu", "--batch.micro=12", "--checkpoint.async=false"});
  const int64_t total = whole["memory"]["device"]["total"].get<int64_t>();
  const auto within = [&](int64_t memory) {
    return trainrun(
        {"plan", "--long", "c.json", "--train.device=cpu", "--batch.micro=12", str("--memory=", memory)});
  };
  auto full = within(total - 1);
  EXPECT_EQ(full.code, kExitUser) << full.output;
  EXPECT_HAS(full.output, "\n  it does not fit; nearest that does: compile.memory_budget ");
  EXPECT_HAS(full.output, "; compile.memory_budget ");
  auto none = trainrun({"plan", "--long", "c.json", "--train.device=cpu", "--memory=400KB"});
  EXPECT_EQ(none.code, kExitUser) << none.output;
  EXPECT_HAS(none.output, "\n  it does not fit, and neither does any mesh of up to 8 times the ranks\n");
  EXPECT_HAS(none.output,
             "\n  fits      no: the device has 390.62 KiB; nor does a smaller batch.micro, on up");
  EXPECT_HAS(none.output, "trainrun: run does not fit on 1 rank: the fullest one needs ");
}

TEST_F(PlanCommand, EveryReasonBeforeAnythingIsPlanned) {
  write_tiny();
  for (const char* command : {"plan", "run"}) {
    auto result = trainrun(
        {command, "--nproc", "6", "c.json", "--mesh.shape=[2,3]", "--mesh.dim_names=[dp_replicate,tp]"});
    EXPECT_EQ(result.code, kExitUser);
    EXPECT_EQ(result.output,
              "trainrun: on the mesh [dp_replicate=2, tp=3]: 3 reasons\n"
              "  model.heads is 2, not a multiple of the mesh's tp size, 3; 3 is\n"
              "  the MLP's features (4 x model.width) is 128, not a multiple of the mesh's tp size, 3; 126 "
              "and 129 are\n"
              "  model.context is 16, not a multiple of the mesh's tp size, 3; 15 and 18 are\n"
              "  the nearest mesh that works is [dp_replicate=3, tp=2]: --mesh.shape=[3,2]\n");
  }
}

// Ten steps of a run, and what its plan said of them.
TEST_F(PlanCommand, ARunSaysBothTimes) {
  write_tiny();
  Json plan = json_of({"--nproc", "2", "c.json", "--train.device=cpu"});
  train({"--nproc", "2", "c.json", "--train.steps=12", "--train.device=cpu"});
  auto log = RunRecord("runs/run").log(0);
  EXPECT_TRUE(std::regex_search(
      log, std::regex("step 10: predicted [0-9.]+ (us|ms|s), measured [0-9.]+ (us|ms|s) a step \\(roofline "
                      "cpu\\); exposed "
                      "communication of rank 0 [0-9.]+ (us|ms|s), predicted [0-9.]+ (us|ms|s)\n")))
      << log;
  EXPECT_EQ(occurrences(RunRecord("runs/run").log(1), "predicted"), 0);
  auto rows = metrics("run");
  ASSERT_EQ(rows.size(), 12u);
  ASSERT_TRUE(rows[9].count("predicted_step_ms"));
  EXPECT_NEAR(std::stod(rows[9]["predicted_step_ms"]) / (plan["prediction"]["step"].get<double>() * 1e3), 1,
              1e-3);
  EXPECT_GT(std::stod(rows[9]["measured_step_ms"]), 0);
  for (auto& row : rows) EXPECT_GT(std::stod(row["exposed_dp_replicate_ms"]), 0);
  EXPECT_FALSE(rows[8].count("predicted_step_ms") || rows[10].count("predicted_step_ms"));
}

// A plan of a program that is ended while the program runs.
TEST_F(PlanCommand, EndsItsProgramWithItself) {
  const std::string program =
      scratch_.write("own", std::string("#!/bin/sh\necho $$ > pid\nexec sleep 600\n"));
  ASSERT_EQ(chmod(program.c_str(), 0700), 0);
  std::filesystem::create_directory("tmp");
  auto plan = start({"plan", "--nproc", "1", "./own"}, {{"TMPDIR", scratch_.path("tmp")}});
  ASSERT_TRUE(until(30, [] { return !file_text("pid").empty(); })) << plan->output();
  const int pid = std::stoi(file_text("pid"));
  kill(plan->pid(), SIGTERM);
  EXPECT_EQ(plan->wait(20), 128 + SIGTERM) << plan->output();
  EXPECT_TRUE(until(20, [&] { return !alive(pid); }));
}

}  // namespace
}  // namespace lockstep::tests
