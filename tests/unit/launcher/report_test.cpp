// metrics.jsonl and the progress line.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "launcher/report/metrics.h"
#include "launcher/report/progress.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Metrics, RowKeepsOrderAndShortestText) {
  MetricsRow row(10);
  row.add("loss", 2.413f)
      .add("lr", 3e-4)
      .add("third", 1.0f / 3)
      .add("tokens", int64_t{1} << 40)
      .add("state_hash", std::string("ab\"c"));
  EXPECT_EQ(
      row.text(),
      R"({"step": 10, "loss": 2.413, "lr": 3e-04, "third": 0.33333334, "tokens": 1099511627776, "state_hash": "ab\"c"})");
  Json parsed = Json::parse(row.text());
  EXPECT_EQ(parsed["third"].get<float>(), 1.0f / 3);
  EXPECT_EQ(parsed["step"].get<int64_t>(), 10);
}

TEST(Metrics, WhatJsonHasNoNumberForIsAString) {
  EXPECT_EQ(MetricsRow(1).add("a", std::nanf("")).add("b", INFINITY).add("c", -HUGE_VAL).text(),
            R"({"step": 1, "a": "nan", "b": "inf", "c": "-inf"})");
}

TEST(Metrics, ResumeDropsLaterStepsTornLinesAndRepeats) {
  ScratchFolder folder;
  std::string path = folder.path("metrics.jsonl");
  {
    MetricsWriter writer(path, 0);
    for (int64_t step : {10, 20, 30})
      writer.write(MetricsRow(step).add("loss", 1.0f).add("certificate", std::string("c")));
  }
  EXPECT_EQ(read(path),
            "{\"step\": 10, \"loss\": 1, \"certificate\": \"c\"}\n{\"step\": 20, \"loss\": 1, "
            "\"certificate\": \"c\"}\n{\"step\": 30, \"loss\": 1, \"certificate\": \"c\"}\n");
  std::ofstream(path, std::ios::app) << "{\"step\": 20, \"loss\": 9}\nnot json\n{\"step\": 2";
  {
    MetricsWriter writer(path, 20);
    writer.write(MetricsRow(30).add("loss", 3.0f).add("certificate", std::string("c")));
  }
  EXPECT_EQ(read(path),
            "{\"step\": 10, \"loss\": 1, \"certificate\": \"c\"}\n{\"step\": 20, \"loss\": 1, "
            "\"certificate\": \"c\"}\n{\"step\": 30, \"loss\": 3, \"certificate\": \"c\"}\n");
}

// A validation that was made up, in the row of its step; once.
TEST(Metrics, ARowIsAmended) {
  ScratchFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  MetricsWriter writer(path, 0);
  for (int64_t step : {1, 10})
    writer.write(MetricsRow(step)
                     .add("loss", 1.0f)
                     .add("state_hash", std::string("aa"))
                     .add("certificate", std::string("c")));
  const MetricsRow more = MetricsRow(1).add("val_loss", 2.0f).add("val_mae", 3.0f);
  writer.amend(more, "");
  writer.amend(more, "");
  writer.amend(MetricsRow(10).add("val_loss", 4.0f), "bb");
  writer.amend(MetricsRow(7).add("val_loss", 4.0f), "bb");
  writer.write(MetricsRow(11).add("certificate", std::string("c")));
  EXPECT_EQ(read(path),
            "{\"step\": 1, \"loss\": 1, \"val_loss\": 2, \"val_mae\": 3, \"state_hash\": \"aa\", "
            "\"certificate\": \"c\"}\n"
            "{\"step\": 10, \"loss\": 1, \"val_loss\": 4, \"state_hash\": \"bb\", \"certificate\": \"c\"}\n"
            "{\"step\": 11, \"certificate\": \"c\"}\n");
}

// Of a start without a checkpoint: no row is lost.
TEST(Metrics, AFreshStartSetsRowsAside) {
  ScratchFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  const auto write = [&](float loss, bool again) {
    MetricsWriter(path, 0, again).write(MetricsRow(1).add("loss", loss).add("certificate", std::string("c")));
  };
  const auto row = [](int loss) {
    return str("{\"step\": 1, \"loss\": ", loss, ", \"certificate\": \"c\"}\n");
  };
  std::string said;
  logs::set_sink([&](int, const std::string& line) { said += line + "\n"; });
  write(1, false);
  EXPECT_EQ(said, "") << "nothing was there";
  folder.write("metrics.jsonl.1", std::string("thesis"));
  write(2, false);
  EXPECT_NE(said.find(str("no checkpoint is there that ", path,
                          " goes on from, and the run starts at step 1: the rows of before are kept as ",
                          path, ".2")),
            std::string::npos)
      << said;
  write(3, false);
  said.clear();
  write(4, true);  // of the same command, which restarts
  logs::set_sink({});
  EXPECT_EQ(said, "");
  EXPECT_EQ(read(path), row(4));
  EXPECT_EQ(read(path + ".1"), "thesis");
  EXPECT_EQ(read(path + ".2"), row(1));
  EXPECT_EQ(read(path + ".3"), row(2));
  EXPECT_FALSE(std::filesystem::exists(path + ".4"));
}

TEST(Metrics, LineIsThereWhenWriteReturns) {
  ScratchFolder folder;
  MetricsWriter writer(folder.path("m"), 0);
  writer.write(MetricsRow(1));
  EXPECT_EQ(read(folder.path("m")), "{\"step\": 1}\n");
}

// A disk that is full for a while, as a limit on the size of files makes it: the file ends with every row,
// whole and in order.
TEST(Metrics, RowsThatDoNotFitWaitForRoom) {
  ScratchFolder folder;
  const std::string path = folder.path("m");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto limit = [&](rlim_t bytes) {
    rlimit now = before;
    now.rlim_cur = bytes;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
  };
  std::string expected, said;
  logs::set_sink(
      [&](int, const std::string& line) { said += line + "\n"; });  // not a file, which the limit would cut
  {
    MetricsWriter writer(path, 0);
    for (int64_t step = 1; step <= 100; ++step) {
      if (step == 3) limit(static_cast<rlim_t>(expected.size()) + 5);  // in the middle of a row
      if (step == 60) limit(before.rlim_cur);
      writer.write(MetricsRow(step));
      expected += str("{\"step\": ", step, "}\n");
    }
  }
  logs::set_sink({});
  limit(before.rlim_cur);
  EXPECT_EQ(read(path), expected);
  const std::string once = "cannot write " + path +
                           ": File too large; the run goes on, and up to 16384 rows are kept in memory and "
                           "written when it takes them";
  EXPECT_NE(said.find(once), std::string::npos) << said;
  EXPECT_EQ(said.find(once), said.rfind(once)) << said;
  EXPECT_NE(said.find(path + " takes rows again; none was lost"), std::string::npos) << said;
}

TEST(Metrics, RowsThatNeverFitAreCounted) {
  ScratchFolder folder;
  const std::string path = folder.path("m");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{}, now{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  now = before;
  std::string said;
  logs::set_sink([&](int, const std::string& line) { said += line + "\n"; });
  {
    MetricsWriter writer(path, 0);
    writer.write(MetricsRow(1).add("certificate", std::string("c")));
    now.rlim_cur = 34;  // the first row, and two bytes
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
    for (int64_t step = 2; step <= 20002; ++step) writer.write(MetricsRow(step));
    EXPECT_EQ(read(path), "{\"step\": 1, \"certificate\": \"c\"}\n{\"");
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  logs::set_sink({});
  EXPECT_NE(said.find(path + ": 20001 rows of this run could not be written and are lost"), std::string::npos)
      << said;
  MetricsWriter again(path, 1);  // a torn row goes
  EXPECT_EQ(read(path), "{\"step\": 1, \"certificate\": \"c\"}\n");
}

TEST(Metrics, WhatIsNoneOfARunsIsLeft) {
  ScratchFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  for (const char* text : {"thesis\n", "{\"step\": 1, \"loss\": 2}\n", "{}\n", "\n"}) {
    folder.write("metrics.jsonl", std::string(text));
    EXPECT_THROW(MetricsWriter(path, 0), UserError) << text;
    EXPECT_EQ(read(path), text);
  }
  for (const char* text : {"", "{\"st", "{\"step\": 7, \"lo"}) EXPECT_TRUE(is_metrics_text(text)) << text;
}

TEST(Metrics, WhatIsNoPlainFileIsRefusedAtOnce) {
  ScratchFolder folder;
  auto error_of = [](const std::string& path) -> std::string {
    try {
      MetricsWriter writer(path, 0);
    } catch (const UserError& e) { return e.what(); }
    return "no error";
  };
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_of(folder.path("fifo")),
            "cannot write " + folder.path("fifo") + ": it is a FIFO, not a plain file");
  ASSERT_EQ(::mkfifo(folder.path("m.lockstep-draft").c_str(), 0600), 0);
  EXPECT_EQ(error_of(folder.path("m")),
            "cannot write " + folder.path("m.lockstep-draft") + ": it is a FIFO, not a plain file");
  EXPECT_EQ(error_of(folder.path("none/m")),
            "cannot write " + folder.path("none/m.lockstep-draft") + ": No such file or directory");
}

TEST(Progress, Text) {
  EXPECT_EQ(progress_text(120, 600, 2.4131, 12345, 83), "step 120/600  loss 2.413  12.3k tok/s  ETA 1:23");
  EXPECT_EQ(progress_text(120, 600, 2.4131, 12345, 83, "samples"),
            "step 120/600  loss 2.413  12.3k samples/s  ETA 1:23");
  EXPECT_EQ(progress_text(1, 600, 5.5, 0, -1), "step 1/600  loss 5.500");
  EXPECT_EQ(rate_text(999.4), "999");
  EXPECT_EQ(rate_text(999.6), "1.0k");
  EXPECT_EQ(rate_text(1.5e6), "1.50M");
  EXPECT_EQ(time_text(0), "0:00");
  EXPECT_EQ(time_text(7384), "2:03:04");
}

TEST(Progress, TerminalLineIsRewrittenAndTheLastStays) {
  ScratchFolder folder;
  int fd = open(folder.path("tty").c_str(), O_CREAT | O_RDWR, 0600);
  {
    ProgressLine line(fd, 16, 3, 1);
    line.update(1, 2.0, 100);
    line.update(3, 1.0, 100);
  }
  close(fd);
  std::string text = read(folder.path("tty"));
  EXPECT_EQ(text.substr(0, text.find('\r') + 1), "step 1/3  loss \033[K\r");
  EXPECT_EQ(text.substr(text.rfind('\r') + 1).substr(0, 21), "step 3/3  loss 1.000 ");
  EXPECT_EQ(text.substr(text.size() - 4), "\033[K\n");
}

TEST(Progress, TheTerminalHasABarAndWhatThereIsRoomFor) {
  ProgressState state{120, 600, 2.4131, 12345, 83, 0.41, int64_t{315} << 20, "tokens"};
  EXPECT_EQ(terminal_text(state, 120),
            "step 120/600  [=====>                    ]  loss 2.413  12.3k tok/s  41 % of peak  mem 315 MiB  "
            "ETA 1:23");
  EXPECT_EQ(
      terminal_text(state, 100),
      "step 120/600  [====>                ]  loss 2.413  12.3k tok/s  41 % of peak  mem 315 MiB  ETA 1:23");
  EXPECT_EQ(terminal_text(state, 80),
            "step 120/600  loss 2.413  12.3k tok/s  41 % of peak  mem 315 MiB  ETA 1:23");
  EXPECT_EQ(terminal_text(state, 70), "step 120/600  loss 2.413  12.3k tok/s  41 % of peak  ETA 1:23");
  EXPECT_EQ(terminal_text(state, 50), "step 120/600  loss 2.413  12.3k tok/s  ETA 1:23");
  EXPECT_EQ(terminal_text(state, 30), "step 120/600  loss 2.413");
  EXPECT_EQ(terminal_text(state, 16), "step 120/600  l");
  EXPECT_EQ(terminal_text({600, 600, 1, 0, -1, 0, 0, "samples"}, 60),
            "step 600/600  [==========================]  loss 1.000");
  EXPECT_EQ(terminal_text({1, 600, 1, 9, -1, 0.0412, int64_t{3} << 29, "samples"}, 90),
            "step 1/600  [>                     ]  loss 1.000  9 samples/s  4.1 % of peak  mem 1.5 GiB");
  for (int columns = 1; columns < 130; ++columns)
    EXPECT_LT(static_cast<int>(terminal_text(state, columns).size()), std::max(2, columns));
}

TEST(Progress, ATerminalIsToldOfPeakAndMemory) {
  std::string live;
  {
    ProgressLine line({100, [&](const std::string& text) { return live = text, true; }, {}}, 1000, 1);
    line.costs({1e9, 1e12, [] { return int64_t{7} << 20; }});
    line.update(1, 2.0, 100);
    EXPECT_NE(live.find("mem 7 MiB"), std::string::npos) << live;
    EXPECT_EQ(live.find("of peak"), std::string::npos) << "no step has been timed yet";
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    line.update(2, 2.0, 100);
    EXPECT_NE(live.find(" % of peak"), std::string::npos) << live;
  }
  EXPECT_EQ(live.find('['), live.find("\033[K") + 1) << "the last state stays without its bar: " << live;
}

TEST(Progress, PlainLinesAtEveryAndTheLast) {
  ::testing::internal::CaptureStdout();
  ProgressLine line(-1, 0, 7, 3);
  for (int64_t step = 1; step <= 7; ++step) line.update(step, 1.5, 10);
  std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_NE(text.find("step 3/7  loss 1.500"), std::string::npos);
  EXPECT_NE(text.find("step 6/7"), std::string::npos);
  EXPECT_NE(text.find("step 7/7"), std::string::npos);
  EXPECT_GT(line.rate(), 0);
}

}  // namespace
}  // namespace lockstep
