// What happened to a run, attempt by attempt, as its logs tell it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/report/page.h"

namespace lockstep::launcher::cli {

struct RunAttempts {
  int64_t attempts = 0;
  int64_t ranks = 0, from = 0;    // of the newest: how many, and the step that it went on from
  std::vector<PageEvent> events;  // in their order
};
// Of runs/NAME/logs. A folder without logs has none.
RunAttempts attempts_of(const std::string& run_dir);

}  // namespace lockstep::launcher::cli
