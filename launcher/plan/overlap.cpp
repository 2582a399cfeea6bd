// Two clocks, the computation's and the link's.
#include "launcher/plan/overlap.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

double exposed_after(const std::vector<double>& ready, const std::vector<double>& travel, double round,
                     int64_t rounds) {
  LS_CHECK(ready.size() == travel.size(), ready.size(), " times for ", travel.size(), " buckets");
  double free = 0;
  for (int64_t r = 0; r < rounds; ++r)
    for (size_t b = 0; b < ready.size(); ++b)
      free = std::max(free, static_cast<double>(r) * round + ready[b]) + travel[b];
  return std::max(0.0, free - round * static_cast<double>(rounds));
}

double exposed_before(const std::vector<double>& needed, const std::vector<double>& travel, size_t ahead) {
  LS_CHECK(needed.size() == travel.size(), needed.size(), " times for ", travel.size(), " buckets");
  double free = 0, stalled = 0;
  std::vector<double> reached(
      needed.size());  // when the computation comes to the place where a bucket is read
  for (size_t b = 0; b < needed.size(); ++b) {
    if (ahead && b >= ahead) free = std::max(free, reached[b - ahead]);
    free += travel[b];
    reached[b] = std::max(needed[b] + stalled, free);
    stalled = reached[b] - needed[b];
  }
  return stalled;
}

}  // namespace lockstep
