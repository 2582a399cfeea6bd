// A real run with a fault in it, and the row of docs/faults.md that the test writes about it.
#pragma once

#include <string>

#include "core/base/json.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {

// What a user meets, in the words of docs/faults.md. An empty field is printed as "-".
struct FaultRow {
  std::string fault = {};      // what was done
  std::string seen = {};       // the first line that tells it, shortened; "nothing" where that is right
  std::string code = {};       // exit code of trainrun, or the codes in the order of the fault's parts
  std::string detected = {};   // how soon: "0.04 s", "at load"
  std::string recovered = {};  // what goes on: "same command", "falls back to step 40"
  std::string lost = {};       // steps computed again: "0", "<= 50"
  std::string same_bits =
      {};  // whether the end of the run is the unfaulted one's: "yes", or why that is no question
};

// A test RowNNName makes fault NN of tests/faults/catalogue.txt; numbers above 40 stand beside the catalogue.
// The record is written only where nothing has failed before: a fault without a record is not OK in
// docs/faults.md.
class FaultRun : public RealRun {
 protected:
  // `not_here`: what this machine lacks, where what is told was seen on another one: "has no GPU".
  void row(const FaultRow& row, const std::string& not_here = "") {
    if (HasFailure() || IsSkipped()) return;
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    const Json json = {{"test", test},     {"fault", row.fault},         {"seen", row.seen},
                       {"code", row.code}, {"detected", row.detected},   {"recovered", row.recovered},
                       {"lost", row.lost}, {"same_bits", row.same_bits}, {"not_here", not_here}};
    std::filesystem::create_directories(FAULT_ROWS);
    std::ofstream(str(FAULT_ROWS, "/", test, ".json")) << json.dump(1) << "\n";
  }
};

}  // namespace lockstep::tests
