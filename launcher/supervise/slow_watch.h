// SlowWatch: which rank does its own work slower than the others, step after step. Ranks that wait for each
// other take the same time for a step; what tells them apart is the time in which they do not wait.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "distributed/watch/flight_record.h"

namespace lockstep::launcher {

// Ranks that are slow, each with how many times the median of the others its own work took.
using SlowRanks = std::vector<std::pair<int64_t, double>>;

class SlowWatch {
 public:
  explicit SlowWatch(int64_t nproc) : ranks_(nproc) {}
  // `words`: of all ranks, in order. What there is to say now: "rank 3 is slow: 1.9 times the median of the
  // ranks over the last 60 steps (38.2 ms of its own work a step, the others 20.1)", and that it is slow no
  // more. A rank is slow when it was in three windows that follow one another, each of at least 20 steps and
  // a second; so a burst of another program's is not told.
  std::vector<std::string> look(const std::vector<distributed::WorkerProgress>& words, int64_t now_ns);
  // Those that were told and have not kept up since.
  SlowRanks slow() const;

 private:
  struct Rank {
    int64_t busy_ns = 0, steps = 0;  // at the beginning of the window
    int windows = 0;                 // that it was slow in, one after another
    double own_sum = 0, others_sum = 0;
    int64_t steps_sum = 0;
    double factor = 0;  // when it was told
    bool told = false;
    int64_t told_ns = 0;
  };
  void begin(const std::vector<distributed::WorkerProgress>& words, int64_t now_ns);
  std::vector<Rank> ranks_;
  int64_t began_ns_ = 0;
};

}  // namespace lockstep::launcher
