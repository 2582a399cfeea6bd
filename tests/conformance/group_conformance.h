// The conformance suite of Group: every implementation passes the same cases, on 1, 2, 3, 4 and 7 ranks.
// A case is run by all ranks of a group at once and throws on the first wrong value. Values are integers in
// closed form: == everywhere.
#pragma once

#include <vector>

#include "tests/conformance/cases.h"

namespace lockstep::conformance {

const std::vector<GroupCase>& group_cases();
// Takes a dtype out of the cases of reductions, for an implementation that says it does not reduce it.
void leave_out(DType dtype);

}  // namespace lockstep::conformance
