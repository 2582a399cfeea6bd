// LateWatch: who keeps the others waiting, read from the flight records of an attempt long before a deadline ends the run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "distributed/watch/late.h"

namespace lockstep {

class LateWatch {
 public:
  // The records are those of `nproc` ranks of this host in `log_dir`. A collective counts as late after a third of `deadline_s`, the
  // seconds after which the ranks give up by themselves.
  LateWatch(std::string log_dir, int64_t nproc, double deadline_s);
  // What there is to say now, each thing once: "rank 2 is late: ranks 0, 1 have waited 200.1 s for it in all_reduce "count" of group world;
  // it is at step 60; they give up after 600 s (LOCKSTEP_DEADLINE)", and later that it has come. Reads the records at most ten times within
  // the third of a deadline, and never more often than ten times a second. Records that cannot be read are left out.
  std::vector<std::string> look(int64_t now_ns = flight_clock_ns());

 private:
  std::string sentence(const LateReport& report, const std::vector<FlightLog>& logs) const;
  std::string log_dir_;
  int64_t nproc_;
  double deadline_s_, after_s_;
  int64_t looked_ns_ = 0;
  std::map<std::pair<uint64_t, int64_t>, LateReport> told_;  // by group and number; the collectives that were told and still wait
};

// The deadline of the workers that this process starts: LOCKSTEP_DEADLINE, or 0 where it is malformed (the workers say so).
double workers_deadline();

}  // namespace lockstep
