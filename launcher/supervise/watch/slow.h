// SlowWatch: finds ranks whose own work is slower than the others'. Ranks that wait for each other take the
// same time for a step; only the time in which they do not wait differs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "distributed/watch/flight_record.h"

namespace lockstep::launcher {

// Slow ranks, each with the ratio of its own work time to the others' median.
using SlowRanks = std::vector<std::pair<int64_t, double>>;

class SlowWatch {
 public:
  explicit SlowWatch(int64_t nproc) : ranks_(nproc) {}
  // `words`: of all ranks, in order. New reports: "rank 3 is slow: 1.9 times the median of the ranks over the
  // last 60 steps (38.2 ms of its own work a step, the others 20.1)", or that it is no longer slow. A rank
  // counts as slow after three slow windows in a row, each of at least 20 steps and a second; so a short
  // burst of another program is not reported.
  std::vector<std::string> look(const std::vector<distributed::WorkerProgress>& words, int64_t now_ns);
  // Those that were reported and are still slow.
  SlowRanks slow() const;

 private:
  struct Rank {
    int64_t busy_ns = 0, steps = 0;  // at the start of the window
    int windows = 0;                 // slow windows in a row
    double own_sum = 0, others_sum = 0;
    int64_t steps_sum = 0;
    double factor = 0;  // at the time of the report
    bool told = false;
    int64_t told_ns = 0;
  };
  void begin(const std::vector<distributed::WorkerProgress>& words, int64_t now_ns);
  std::vector<Rank> ranks_;
  int64_t began_ns_ = 0;
};

}  // namespace lockstep::launcher
