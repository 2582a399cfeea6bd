// PlanRequest: what trainrun plan is asked for, as a program is told that is to plan its own step.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::launcher {

struct PlanRequest {
  std::string name;      // of the program
  int64_t nproc = 1;     // ranks that are planned for
  int64_t memory = 0;    // bytes that a rank may take of its device or host; 0: what it has, where known
  std::string roofline;  // "": that of the device
  // As trainrun plan --json, --long, --program, --listing, and trainrun show --graph.
  bool json = false, whole = false, program = false, listing = false, graph = false;
  int64_t rank = 0;    // of program, listing and graph
  std::string answer;  // the file that the plan is written to
};

// Through the environment, as JSON: `trainrun plan ./program` starts the program with LOCKSTEP_PLAN.
std::string text(const PlanRequest& request);
// What LOCKSTEP_PLAN says. UserError where it is no such text.
PlanRequest plan_request(const std::string& text);

}  // namespace lockstep::launcher
