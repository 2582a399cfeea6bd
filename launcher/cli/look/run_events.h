// The events of a run, attempt by attempt, from its logs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/report/page.h"

namespace lockstep::launcher::cli {

struct RunAttempts {
  int64_t attempts = 0;
  int64_t ranks = 0;              // of the newest
  std::vector<int64_t> starts;    // the steps that the attempts continued from
  std::vector<PageEvent> events;  // in their order

  int64_t begin_at(int64_t step) { return starts.emplace_back(step); }
  // The start step of the newest attempt that made rows up to step `last`: a finished run that is started
  // again makes none.
  int64_t from(int64_t last) const {
    for (auto start = starts.rbegin(); start != starts.rend(); ++start)
      if (*start < last) return *start;
    return 0;
  }
};
// Of runs/NAME/logs. A folder without logs has none; what cannot be read is warned of.
RunAttempts attempts_of(const std::string& run_dir);

}  // namespace lockstep::launcher::cli
