// trainrun report on real runs: what the page says of a run that was stopped, killed and resumed; and what is
// refused.
#include <cmath>

#include "core/base/json.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class ReportCommand : public RealRun {
 protected:
  static Json data_of(const std::string& html) {
    const std::string begin = "id=\"data\">";
    const size_t from = html.find(begin) + begin.size();
    return Json::parse(html.substr(from, html.find("</script>", from) - from), nullptr, false);
  }
  static const Json* chart(const Json& data, const std::string& title) {
    for (const Json& one : data["charts"])
      if (one["title"] == title) return &one;
    return nullptr;
  }
};

TEST_F(ReportCommand, TellsWhatTheRunRecorded) {
  write_tiny();
  const std::vector<std::string> more{"c.json", "--checkpoint.every=4", "--train.eval_every=4",
                                      "--train.steps=12", "--checkpoint.async=false"};
  auto on = [&](std::vector<std::string> words) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto killed =
      trainrun(on({"--nproc", "2"}), {{"LOCKSTEP_FAULT", "kill:rank=1,step=7"}, {"LOCKSTEP_LOGS", ""}});
  ASSERT_NE(killed.code, kExitOk) << killed.output;
  train(on({"--nproc", "2"}));
  const auto told = trainrun({"report", "run", "--out", "page.html"});
  ASSERT_EQ(told.code, kExitOk) << told.output;
  EXPECT_HAS(told.output, "page.html: ");
  const std::string html = file_text("page.html");
  for (const char* part :
       {"<h1>run</h1>", "gpt, 28,032 parameters, mesh [dp_replicate=2], fp32", "Plan and measurement",
        "2 starts", "started on 2 ranks", "resumed on 2 ranks", "rank 1 died: SIGKILL",
        "stands still for dp_replicate", "lane_exchange", "activations", "&quot;global&quot;: 12"})
    EXPECT_HAS(html, part);
  EXPECT_HAS(html, final_hash("run").substr(1, 32));
  const Json data = data_of(html);
  ASSERT_TRUE(data.is_object());
  const Json* loss = chart(data, "Loss");
  ASSERT_TRUE(loss);
  // The points are those of metrics.jsonl.
  const auto rows = metrics("run");
  ASSERT_EQ((*loss)["series"].size(), 2u) << "training and validation";
  const Json& series = (*loss)["series"][0];
  ASSERT_EQ(series["x"].size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(series["y"][i].get<double>(), std::stod(rows[i].at("loss"))) << i;
  for (const char* title :
       {"Learning rate", "Gradient norm", "Throughput", "Time of a step", "Standing still for communication"})
    EXPECT_TRUE(chart(data, title)) << title;
  bool bad = false;
  for (const Json& mark : data["marks"]) bad = bad || mark["bad"].get<bool>();
  EXPECT_TRUE(bad) << "the death is marked in the charts";
  EXPECT_FALSE(chart(data, "Memory against time")) << "it was not asked for";
  // A finished run that is called again makes no rows, and what was measured stays.
  const auto measured = [&](const std::string& page) {
    const size_t begin = page.find("Plan and measurement");
    return page.substr(begin, page.find("</table>", begin) - begin);
  };
  train(on({"--nproc", "2"}));
  ASSERT_EQ(trainrun({"report", "run", "--out", "again.html"}).code, kExitOk);
  EXPECT_EQ(measured(file_text("again.html")), measured(html));
  EXPECT_HAS(file_text("again.html"), "3 starts");
  // The same into the run's folder, where no name is given.
  EXPECT_EQ(trainrun({"report", "runs/run", "--budgets"}).code, kExitOk);
  const Json more_data = data_of(file_text("runs/run/report.html"));
  const Json* budgets = chart(more_data, "Memory against time");
  ASSERT_TRUE(budgets);
  EXPECT_EQ((*budgets)["x"], "MiB a rank");
  EXPECT_GE((*budgets)["series"][0]["x"].size(), 3u);
}

TEST_F(ReportCommand, Refusals) {
  write_tiny();
  auto refused = [&](std::vector<std::string> words, const std::string& why) {
    const auto result = trainrun(std::move(words));
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, why);
  };
  refused({"report", "run"},
          "no run run: neither runs/run nor run has a config.json of a run that was started");
  train({"c.json", "--train.steps=1"});
  refused(
      {"report", "run", "--out", "page.htm"},
      "report: --out is \"page.htm\", which does not end in .html; it names the page that is written, as in: "
      "trainrun report run --out report.html");
  refused(
      {"report", "run", "--out", "none/page.html"},
      "report: \"none/page.html\" cannot be written: No such file or directory; name a file in a folder that "
      "you may write to");
  const std::string rows = file_text("runs/run/metrics.jsonl");
  std::filesystem::remove("runs/run/metrics.jsonl");
  refused({"report", "run"},
          "report: runs/run/metrics.jsonl has no rows yet; a run writes one at its first step, and every "
          "log.every "
          "steps");
  std::filesystem::create_directory("runs/run/metrics.jsonl");
  refused({"report", "run"},
          "runs/run/metrics.jsonl cannot be read: it is a folder, not a plain file; it must be a file that "
          "you may read");
  EXPECT_HAS(trainrun({"top", "run", "--once"}).output,
             "\nmetrics.jsonl cannot be read: it is a folder, not a plain file\n");
  std::filesystem::remove("runs/run/metrics.jsonl");
  scratch_.write("runs/run/metrics.jsonl", rows);
  std::filesystem::remove_all("runs/run/logs");
  scratch_.write("runs/run/logs", std::string("mine"));
  const std::string unread =
      "runs/run/logs cannot be read: Not a directory; it must be a folder that you may read\n";
  for (const char* command : {"top", "autopsy"}) refused({command, "run"}, "trainrun: " + unread);
  const auto page = trainrun({"report", "run"});  // which has the rows all the same
  EXPECT_EQ(page.code, kExitOk) << page.output;
  EXPECT_HAS(page.output, "trainrun: warning: " + unread);
}

}  // namespace
}  // namespace lockstep::tests
