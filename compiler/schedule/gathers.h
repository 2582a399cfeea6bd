// When weights that lie as rows are gathered for a body: bucket by bucket, one bucket ahead of the calls that
// read it, freed after use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::compiler {

// A weight and the calls of the body that read it, in rising order.
struct GatherUse {
  int input = 0;      // of the body
  int64_t bytes = 0;  // of the whole weight
  std::vector<int> calls;
};

struct GatherOptions {
  int64_t bucket_bytes =
      int64_t{4} << 20;  // weights that are read one after another travel together up to about this size
  bool reshard = true;   // whole weights are freed after forward and gathered again for backward; false: kept
                         // until their last use
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
    int start = 0;  // its gathers are issued before this call, after the wait of the bucket before it
    int wait = 0;   // and are waited for before this one
  };
  std::vector<Segment> segments;
  std::vector<Bucket> buckets;  // in the order in which they are issued and waited for
  int64_t gathered_bytes() const;
  std::string text() const;  // a line per bucket
};

// Segments: a weight is gathered anew where it would lie idle while others of more than two buckets are read
// (with `reshard`); so the last block, whose backward follows its forward, is gathered once. A bucket starts
// where the one before it is waited for.
GatherPlan plan_gathers(const std::vector<GatherUse>& uses, const GatherOptions& options);

}  // namespace lockstep::compiler
