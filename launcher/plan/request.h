// PlanRequest: a request of trainrun plan to a program that plans its own step.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher {

struct PlanRequest {
  std::string name;      // of the program
  int64_t nproc = 1;     // number of ranks to plan for
  int64_t memory = 0;    // limit of a rank's bytes on its device or host; 0: the known amount
  std::string roofline;  // "": that of the device
  // As trainrun plan --json, --long, --program, --listing, and trainrun show --graph.
  bool json = false, whole = false, program = false, listing = false, graph = false;
  int64_t rank = 0;    // for program, listing and graph
  std::string answer;  // the output file of the plan
};

// Passed through the environment as JSON: `trainrun plan ./program` starts the program with LOCKSTEP_PLAN.
std::string text(const PlanRequest& request);
// Parses LOCKSTEP_PLAN. UserError for any other text.
PlanRequest plan_request(const std::string& text);

}  // namespace lockstep::launcher
