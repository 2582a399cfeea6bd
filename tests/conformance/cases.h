// The parts of the conformance suite.
#pragma once

#include "tests/conformance/group_conformance.h"

namespace lockstep::conformance {

void add_verb_cases(std::vector<GroupCase>& cases);    // every verb alone
void add_flight_cases(std::vector<GroupCase>& cases);  // start and wait, several in flight, streams, words

}  // namespace lockstep::conformance
