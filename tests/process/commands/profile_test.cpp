// --profile through the real trainrun: one file of both ranks, whose rows can be added up; and what is
// refused.
#include "core/base/json.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

struct TraceSpan {
  std::string name, category;
  double begin = 0, end = 0;  // microseconds
  Json args;
};
using TraceRows = std::map<std::string, std::vector<TraceSpan>>;

class ProfileRun : public RealRun {
 protected:
  // Per process its rows, by name.
  static std::map<int, TraceRows> read(const std::string& path) {
    const Json file = Json::parse(file_text(path), nullptr, false);
    EXPECT_TRUE(file.is_object()) << path << " is no JSON";
    std::map<int, TraceRows> out;
    std::map<std::pair<int, int>, std::string> names;
    if (!file.is_object()) return out;
    for (const Json& event : file["traceEvents"]) {
      const int process = event["pid"];
      if (event["name"] == "thread_name") names[{process, event["tid"]}] = event["args"]["name"];
      if (event["ph"] != "X") continue;
      const double begin = event["ts"], length = event["dur"];
      out[process][names[{process, event["tid"]}]].push_back(
          {event["name"], event["cat"], begin, begin + length, event.value("args", Json::object())});
    }
    return out;
  }
  // Every span of a row stands within the last one before it that has not ended, or behind it.
  static void expect_nested(const std::vector<TraceSpan>& row, const std::string& name) {
    std::vector<double> ends;
    for (const TraceSpan& span : row) {
      EXPECT_GE(span.end, span.begin);
      while (!ends.empty() && ends.back() <= span.begin + 1e-3) ends.pop_back();
      if (!ends.empty()) { EXPECT_LE(span.end, ends.back() + 2e-3) << name << ": " << span.name; }
      ends.push_back(span.end);
    }
  }
};

TEST_F(ProfileRun, OneFileOfBothRanks) {
  write_tiny();
  train({"--nproc", "2", "c.json", "--profile=2", "--train.steps=8"});
  EXPECT_HAS(RunRecord("runs/run").log(0),
             "/runs/run/trace-3-4.json; ui.perfetto.dev and chrome://tracing open it\n");
  const auto ranks = read("runs/run/trace-3-4.json");
  ASSERT_EQ(ranks.size(), 2u);
  for (const auto& [rank, rows] : ranks) {
    for (const char* row : {"steps", "host", "compute", "collectives along dp_replicate"})
      ASSERT_TRUE(rows.count(row)) << row;
    for (const auto& [name, row] : rows) expect_nested(row, name);
    ASSERT_EQ(rows.at("steps").size(), 2u);
    std::map<std::string, std::map<int, int>> kernels;  // by step: how many of each micro-batch
    std::string step;
    double inside = 0, steps = 0;
    for (const TraceSpan& span : rows.at("compute")) {
      if (span.category == "step") step = span.name, steps += span.end - span.begin;
      if (span.category == "forward" || span.category == "backward") {
        ++kernels[step][span.args.at("micro_batch").get<int>()];
        inside += span.end - span.begin;
        EXPECT_TRUE(span.args.contains("op")) << span.name;
      }
    }
    EXPECT_LE(inside, steps);
    EXPECT_EQ(kernels.size(), 2u);
    for (const auto& [of, counts] : kernels) {
      EXPECT_EQ(counts.size(), 3u) << of << ": 6 micro-batches on 2 ranks";
      for (const auto& [micro_batch, count] : counts) EXPECT_EQ(count, counts.begin()->second);
    }
    int64_t bytes = 0;
    for (const auto& [name, row] : rows)
      if (name.starts_with("collectives"))
        for (const TraceSpan& span : row) {
          bytes += span.args.at("bytes").get<int64_t>();
          EXPECT_EQ(span.args.at("along"), "dp_replicate");
        }
    EXPECT_GT(bytes, 2 * 28032 * 4) << "at least the gradients' halves and the weights', twice";
    // A step's row holds what the host does in it.
    for (const TraceSpan& span : rows.at("host")) {
      EXPECT_GE(span.begin, rows.at("steps").front().begin);
      EXPECT_LE(span.end, rows.at("steps").back().end + 1e-3) << span.name;
    }
  }
  // A trace changes no bit.
  train({"--nproc", "1", "c.json", "--name=plain", "--train.steps=8"});
  EXPECT_EQ(final_hash("run"), final_hash("plain"));
  EXPECT_FALSE(std::filesystem::exists("runs/plain/trace-3-4.json"));
}

TEST_F(ProfileRun, OfThreadsAndOfShortRuns) {
  write_tiny();
  train({"--simulate", "3", "c.json", "--profile", "--train.steps=4"});
  EXPECT_EQ(read("runs/run/trace-3-4.json").size(), 3u) << "three steps are wanted, two are there";
}

TEST_F(ProfileRun, Refusals) {
  write_tiny();
  auto result = trainrun({"c.json", "--profile=many"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output, "--profile");
  result = trainrun({"c.json", "--log.profile=1001"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output, "log.profile is 1001; it must be at least 0 and at most 1000");
}

}  // namespace
}  // namespace lockstep::tests
