// The list of cases.
#include "tests/conformance/group_conformance.h"

#include "tests/conformance/values.h"

namespace lockstep::conformance {

const std::vector<GroupCase>& group_cases() {
  static const std::vector<GroupCase> cases = [] {
    std::vector<GroupCase> out;
    add_verb_cases(out);
    add_flight_cases(out);
    return out;
  }();
  return cases;
}

void leave_out(DType dtype) { std::erase(numbers(), dtype); }

}  // namespace lockstep::conformance
