// LoadPlan: intersects needed and stored boxes: which stored chunks a rank reads, and into which pieces of
// its arrays.
#pragma once

#include <vector>

#include "checkpoint/format/manifest.h"
#include "core/mesh/array.h"

namespace lockstep::checkpoint {

struct ChunkTarget {
  size_t array = 0;  // index into the arrays
  size_t piece = 0;  // index into its pieces
};

// One chunk to read, front to back, once.
struct PlannedRead {
  const TensorRecord* tensor = nullptr;
  const Chunk* chunk = nullptr;
  std::vector<ChunkTarget> targets;  // pieces that share elements with the chunk
};

// The reads of the rank that holds `arrays`, ordered by file and offset. Arrays that the manifest does not
// have are left out (see fit.h). The manifest must outlive the plan.
std::vector<PlannedRead> plan_load(const Manifest& manifest, const std::vector<Array*>& arrays);

}  // namespace lockstep::checkpoint
