// Two and three real workers of which one has another config, data or environment: an mpirun line gives each
// its own. They end within 2 s of reaching the comparison, with exit code 2, and the record names the key,
// both values and the rank.
#include <chrono>
#include <thread>

#include "distributed/watch/flight_record.h"
#include "launcher/supervise/worker/contract.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {

using namespace launcher;

namespace {

using Words = std::vector<std::string>;

class OtherRank : public RealRun {
 protected:
  struct Ended {
    int code = -1;
    std::vector<ErrorRecord> records;
    std::string words;    // of the first record
    double seconds = -1;  // from the last rank's arrival at `label` to the end of the last rank (mpirun
                          // itself takes its time)
  };

  // The resolved config with keys replaced: text as trainrun would hand it to its workers.
  void write_config(const std::string& file, const std::vector<std::string>& overrides) {
    Words words = {"show", "c.json"};
    words.insert(words.end(), overrides.begin(), overrides.end());
    auto shown = trainrun(words);
    ASSERT_EQ(shown.code, kExitOk) << shown.output;
    scratch_.write(file, shown.output);
  }

  // One worker per config, all in one world. `more` per rank: words for mpirun, as in -x NAME=VALUE.
  Ended workers(const Words& configs, const std::string& label, const std::vector<Words>& more = {}) {
    const std::string logs = scratch_.path("logs"), run = scratch_.path("runs/run");
    std::filesystem::remove_all(logs);
    std::filesystem::create_directories(logs);
    std::filesystem::create_directories(run);
    Words words = {MPIRUN, "--oversubscribe", "--bind-to", "none"};
    for (size_t r = 0; r < configs.size(); ++r) {
      if (r) words.push_back(":");
      words.insert(words.end(), {"-n", "1"});
      if (r < more.size()) words.insert(words.end(), more[r].begin(), more[r].end());
      words.insert(words.end(), {TRAINRUN, "worker", configs[r]});
    }
    Process process(words, scratch_.path("out"),
                    {{"LOCKSTEP_CACHE", KERNEL_CACHE},
                     {"LOCKSTEP_RUN_DIR", run},
                     {"LOCKSTEP_LOG_DIR", logs},
                     {"OMP_NUM_THREADS", "1"},
                     {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                     {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                     {"OMPI_MCA_btl", "self,vader,tcp"},
                     {"OMPI_MCA_btl_tcp_if_include", "lo"},
                     {"OMPI_MCA_oob_tcp_if_include", "lo"},
                     {"OMPI_MCA_mpi_yield_when_idle", "1"}});
    Ended out;
    std::vector<int> pids;
    auto announced = [&] {
      pids.clear();
      for (size_t r = 0; r < configs.size(); ++r) {
        Json json = Json::parse(file_text(worker_file(logs, static_cast<int64_t>(r))), nullptr, false);
        if (json.is_object()) pids.push_back(json.value("pid", 0));
      }
      return pids.size() == configs.size();
    };
    EXPECT_TRUE(until(30, announced)) << process.output();
    EXPECT_TRUE(all_gone(pids, 30));
    const int64_t end = distributed::flight_clock_ns();
    out.code = process.wait(30);
    out.records = read_error_records(logs);
    if (!out.records.empty()) out.words = out.records[0].message;
    int64_t reached = 0;
    for (size_t r = 0; r < configs.size(); ++r)
      for (const auto& entry :
           distributed::read_flight_log(progress_file(logs, static_cast<int64_t>(r))).entries)
        if (entry.label == label) reached = std::max(reached, entry.start_ns);
    if (reached) out.seconds = static_cast<double>(end - reached) * 1e-9;
    out_ = process.output();
    return out;
  }

  void refused(const Ended& ended, const std::string& words) {
    EXPECT_EQ(ended.code, kExitUser) << out_;
    EXPECT_EQ(ended.words, words) << out_;
    for (const auto& record : ended.records) {
      EXPECT_EQ(record.kind, "UserError") << record.message;
      EXPECT_EQ(record.message, words);
    }
    EXPECT_GE(ended.seconds, 0) << "no rank has reached the comparison";
    EXPECT_LT(ended.seconds, 2.0 * kSlowness);
  }
  std::string out_;
};

TEST_F(OtherRank, AnotherConfigIsNamedByKeyAndRank) {
  write_tiny();
  write_config("a.json", {"--train.device=cpu"});
  write_config("lr.json", {"--train.device=cpu", "--optim.lr=0.0003"});
  write_config("mesh.json", {"--train.device=cpu", "--mesh.dim_names=[\"dp_shard\"]"});
  refused(workers({"a.json", "lr.json"}, "fingerprint"),
          "the config differs between ranks, before the ranks are grouped: rank 1 has optim.lr = 0.0003, "
          "rank 0 has 0.01; start every rank "
          "with the same config");
  refused(workers({"lr.json", "a.json", "a.json"}, "fingerprint"),
          "the config differs between ranks, before the ranks are grouped: rank 0 has optim.lr = 0.0003, "
          "rank 1 has 0.01; start every rank "
          "with the same config");
  refused(workers({"a.json", "a.json", "mesh.json"}, "fingerprint"),
          "the config differs between ranks, before the ranks are grouped: rank 2 has mesh.dim_names = "
          "[\"dp_shard\"], rank 0 has "
          "[\"dp_replicate\"]; start every rank with the same config");
  EXPECT_FALSE(std::filesystem::exists("runs/run/ckpt/step-20"));
}

// A config that one rank alone refuses, and one that is not there: the others are told, not left waiting.
TEST_F(OtherRank, AConfigThatOneRankRefusesEndsAll) {
  write_tiny();
  write_config("a.json", {"--train.device=cpu"});
  std::string bad = file_text("a.json");
  bad.replace(bad.find("\"micro\": 2"), 10, "\"micro\": 5");
  scratch_.write("bad.json", bad);
  refused(workers({"a.json", "bad.json"}, "agree"),
          "rank 1: bad.json: batch.global is 12, not a multiple of batch.micro, 5; 10 and 15 are");
  auto absent = workers({"a.json", "absent.json"}, "agree");
  EXPECT_EQ(absent.code, kExitUser);
  EXPECT_NE(absent.words.find("rank 1: "), std::string::npos) << absent.words;
  EXPECT_NE(absent.words.find("absent.json"), std::string::npos) << absent.words;
  EXPECT_LT(absent.seconds, 2.0 * kSlowness);
}

// The same config, other bytes behind it; and another variable of the environment.
TEST_F(OtherRank, OtherDataAndAnotherEnvironment) {
  write_tiny();
  write_config("a.json", {"--train.device=cpu"});
  std::filesystem::create_directories("elsewhere");
  std::string bytes = file_text("tokens.bin");
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  scratch_.write("elsewhere/tokens.bin", bytes);
  std::filesystem::copy_file("a.json", "elsewhere/a.json");
  // The path is relative, so a worker in another folder reads another file of the same name.
  auto ended = workers({"a.json", "a.json"}, "fingerprint", {{}, {"-wdir", scratch_.path("elsewhere")}});
  ASSERT_FALSE(ended.words.empty()) << out_;
  EXPECT_HAS(ended.words,
             "the data differs between ranks, before step 1: rank 1 has file 1 = tokens.bin, 6000 tokens, "
             "fingerprint ");
  EXPECT_HAS(ended.words, "rank 0 has tokens.bin, 6000 tokens, fingerprint ");
  EXPECT_HAS(ended.words, "; every rank must see the same files, byte for byte");
  refused(ended, ended.words);
  refused(workers({"a.json", "a.json"}, "fingerprint", {{}, {"-x", "LOCKSTEP_SKIP_PASSES=simplify"}}),
          "the program differs between ranks, before the ranks are grouped: rank 1 has LOCKSTEP_SKIP_PASSES "
          "= \"simplify\", rank 0 has \"\"; "
          "start every rank with the same program, libraries and environment");
  refused(workers({"a.json", "a.json"}, "fingerprint",
                  {{"-x", "LOCKSTEP_VERIFY=0"}, {"-x", "LOCKSTEP_VERIFY=1"}}),
          "the program differs between ranks, before the ranks are grouped: rank 1 has LOCKSTEP_VERIFY = "
          "\"1\", rank 0 has \"0\"; start "
          "every rank with the same program, libraries and environment");
}

}  // namespace
}  // namespace lockstep::tests
