// Who is late: from the flight records of several ranks, the collective that some have entered and others have not.
#pragma once

#include <string>
#include <vector>

#include "distributed/watch/flight_record.h"

namespace lockstep {

// One collective in flight that waits for ranks of its group.
struct LateReport {
  GroupIdentity group;
  int64_t group_seq = 0;
  std::string verb, label;
  double waited_s = 0;                // since the first rank entered it
  std::vector<int> arrived, missing;  // ranks within the group; `missing` is empty when all are in and the transfer itself is slow
};

// One report per collective in flight for at least `after_s` seconds, the longest wait first. Logs are those of one host (one clock).
std::vector<LateReport> find_late(const std::vector<FlightLog>& logs, double after_s, int64_t now_ns = flight_clock_ns());
// "group "world": all_reduce "loss" (#12) has waited 3.1 s for rank 2 of 4"
std::string text(const LateReport& report);

}  // namespace lockstep
