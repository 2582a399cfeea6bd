// When weights stored as split rows are gathered for a body: bucket by bucket, one bucket ahead of the calls
// that read it, and freed after use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::compiler {

// A weight and the calls of the body that read it, ascending.
struct GatherUse {
  int input = 0;      // of the body
  int64_t bytes = 0;  // of the whole weight
  std::vector<int> calls;
};

struct GatherOptions {
  // Weights that are read consecutively travel together up to about this size.
  int64_t bucket_bytes = int64_t{4} << 20;
  // Whole weights are freed after forward and gathered again for backward; false: kept until their last use.
  bool reshard = true;
};

struct GatherPlan {
  // A whole weight for some of its uses.
  struct Segment {
    int input = 0;
    int64_t bytes = 0;
    int first = 0, last = 0;  // calls that read it
    int bucket = 0;
  };
  struct Bucket {
    std::vector<int> segments;
    int64_t bytes = 0;
    int start = 0;  // its gathers start before this call, after the wait of the previous bucket
    int wait = 0;   // the wait for them is before this call
  };
  std::vector<Segment> segments;
  std::vector<Bucket> buckets;  // in the order of their starts and waits
  int64_t gathered_bytes() const;
  std::string text() const;  // a line per bucket
};

// With `reshard`, a weight is gathered again if it would be idle while more than two buckets of other weights
// are read. So the last block, whose backward directly follows its forward, is gathered once. A bucket starts
// at the wait of the previous one.
GatherPlan plan_gathers(const std::vector<GatherUse>& uses, const GatherOptions& options);

}  // namespace lockstep::compiler
