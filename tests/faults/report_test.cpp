// The head of docs/faults.md: how many rows hold, and which do not, and why.
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

TEST(FaultsReport, TheHeadNamesTheRowsThatAreNotShownHere) {
  ScratchFolder scratch;
  scratch.write("catalogue", std::string("# NUMBER TITLE\n1 a kill\n2 a lost GPU\n3 a full disk\n"));
  scratch.write("tests", std::string("Row01AKill\nRow02ALostGpu\nRow03AFullDisk\nRow41NoRankListens\n"));
  std::filesystem::create_directories(scratch.path("rows"));
  const auto record = [&](const char* test, const char* not_here) {
    scratch.write(str("rows/", test, ".json"),
                  Json{{"test", test}, {"fault", "made"}, {"seen", "told"}, {"not_here", not_here}}.dump());
  };
  record("Row01AKill", "");
  record("Row02ALostGpu", "has no GPU");
  record("Row41NoRankListens", "");
  const auto page = [&] {
    Process process({FAULTS_REPORT, scratch.path("catalogue"), scratch.path("tests"), scratch.path("rows")},
                    scratch.path("page"), {});
    EXPECT_EQ(process.wait(20), 0) << process.output();
    return process.output();
  };
  EXPECT_HAS(page(),
             "\n\n1 of 3 rows hold on the machine that made this page.\n"
             "Row 2 (a lost GPU) is shown on another machine: this one has no GPU.\n"
             "Row 3 (a full disk) is not shown: Row03AFullDisk failed, or was skipped.\n\n");
  EXPECT_HAS(page(), "| No rank listens | made | told |");
  record("Row02ALostGpu", "");
  record("Row03AFullDisk", "");
  EXPECT_HAS(page(), "\n\n3 of 3 rows hold on the machine that made this page.\n\n");
}

}  // namespace
}  // namespace lockstep::tests
