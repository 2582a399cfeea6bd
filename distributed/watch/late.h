// Finds late ranks and mismatched collectives in the flight records of several ranks: collectives that only
// some ranks have entered, and those that differ between ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distributed/watch/flight_record.h"

namespace lockstep::distributed {

// One collective in flight that waits for ranks of its group.
struct LateReport {
  GroupIdentity group;
  int64_t group_seq = 0;
  std::string verb, label;
  double waited_s = 0;  // since the first rank entered it
  // Ranks within the group. `missing` is empty if all ranks have entered and the transfer itself is slow.
  std::vector<int> arrived, missing;
};

// One report per collective in flight (started, not yet complete) for at least `after_s` seconds, the longest
// wait first. All logs are from one host (one clock).
std::vector<LateReport> find_late(const std::vector<FlightLog>& logs, double after_s,
                                  int64_t now_ns = flight_clock_ns());
// "group "world": all_reduce "loss" (#12) has waited 3.1 s for rank 2 of 4"
std::string text(const LateReport& report);

// Ranks of a group that started different collectives at the same position.
struct Mismatch {
  GroupIdentity group;
  int64_t group_seq = 0;  // the oldest position that is known to differ
  // The first difference is no longer in the records: the sites at group_seq are equal, the collectives
  // before them are not.
  bool before = false;
  int rank = 0, other = 0;  // ranks of the run; `other` differs from `rank`
  std::string site, other_site;
};
// The first difference in the records, if there is one. Two ranks whose lists do not overlap are not
// compared.
std::optional<Mismatch> find_mismatch(const std::vector<FlightLog>& logs);
// "collective 158 of group world differs: rank 0 started ..., rank 1 started ...; all ranks must start ..."
std::string text(const Mismatch& mismatch);

}  // namespace lockstep::distributed
