// The list of cases.
#include "tests/conformance/group_conformance.h"

#include "tests/conformance/cases.h"

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

}  // namespace lockstep::conformance
