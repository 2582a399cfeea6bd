// The parts of the conformance suite.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/mesh/group.h"

namespace lockstep::conformance {

struct GroupCase {
  std::string name;
  std::function<void(Group&)> run;
};

void add_verb_cases(std::vector<GroupCase>& cases);    // every verb alone
void add_flight_cases(std::vector<GroupCase>& cases);  // start and wait, several in flight, streams, words

}  // namespace lockstep::conformance
