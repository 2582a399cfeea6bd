// Plans segments of use, and buckets in the order of first use, one bucket ahead.
#include "compiler/schedule/gathers.h"

#include <algorithm>

#include "core/base/text.h"

namespace lockstep::compiler {

namespace {
// Bytes of other weights that are read between two calls.
int64_t bytes_between(const std::vector<GatherUse>& uses, size_t self, int after, int before) {
  int64_t bytes = 0;
  for (size_t w = 0; w < uses.size(); ++w) {
    auto next = std::upper_bound(uses[w].calls.begin(), uses[w].calls.end(), after);
    if (w != self && next != uses[w].calls.end() && *next < before) bytes += uses[w].bytes;
  }
  return bytes;
}
}  // namespace

GatherPlan plan_gathers(const std::vector<GatherUse>& uses, const GatherOptions& options) {
  GatherPlan plan;
  const int64_t bucket_bytes = std::max<int64_t>(options.bucket_bytes, 1);
  for (size_t w = 0; w < uses.size(); ++w) {
    for (size_t u = 0; u < uses[w].calls.size(); ++u) {
      const int call = uses[w].calls[u];
      const bool anew = u == 0 || (options.reshard &&
                                   bytes_between(uses, w, uses[w].calls[u - 1], call) > 2 * bucket_bytes);
      if (anew)
        plan.segments.push_back({uses[w].input, uses[w].bytes, call, call, 0});
      else
        plan.segments.back().last = call;
    }
  }
  std::stable_sort(plan.segments.begin(), plan.segments.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t s = 0; s < plan.segments.size(); ++s) {
    auto& segment = plan.segments[s];
    if (plan.buckets.empty() || plan.buckets.back().bytes + segment.bytes > bucket_bytes) {
      GatherPlan::Bucket bucket;
      bucket.wait = segment.first;
      bucket.start = plan.buckets.empty() ? 0 : plan.buckets.back().wait;
      plan.buckets.push_back(std::move(bucket));
    }
    segment.bucket = static_cast<int>(plan.buckets.size()) - 1;
    plan.buckets.back().segments.push_back(static_cast<int>(s));
    plan.buckets.back().bytes += segment.bytes;
  }
  return plan;
}

int64_t GatherPlan::gathered_bytes() const {
  int64_t bytes = 0;
  for (const Bucket& bucket : buckets) bytes += bucket.bytes;
  return bytes;
}

std::string GatherPlan::text() const {
  std::string out;
  for (size_t b = 0; b < buckets.size(); ++b)
    out += str("gather ", b, ": ", buckets[b].segments.size(), " weights, ", buckets[b].bytes,
               " bytes, before call ", buckets[b].start, ", read from call ", buckets[b].wait, "\n");
  return out;
}

}  // namespace lockstep::compiler
