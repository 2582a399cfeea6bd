// Placement: how one value is distributed along one mesh dim. Every value has one per mesh dim.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

enum class ReduceOp { sum, max, min };
std::string_view name(ReduceOp op);

struct Placement {
  enum class Kind {
    // Every rank holds the whole value.
    replicate,
    // Tensor dim `dim` is split over the ranks. groups > 1: each of `groups` equal ranges is split (q, k and
    // v in one weight).
    shard,
    // Each rank holds a term of the `op` over ranks. Only a reduction may read it.
    partial,
    // The value belongs to a micro-batch, so it differs between data ranks. dim < 0: it is whole, for the
    // rank's own lanes. dim >= 0: after the exchange, it is this rank's rows of `dim` for every lane. Only the
    // sum over lanes turns it into another placement.
    per_lane,
  };
  Kind kind = Kind::replicate;
  int dim = -1;
  int groups = 1;
  ReduceOp op = ReduceOp::sum;
  bool operator==(const Placement&) const = default;
};

inline Placement Replicate() { return {}; }
inline Placement Shard(int dim, int groups = 1) {
  return {Placement::Kind::shard, dim, groups, ReduceOp::sum};
}
inline Placement Partial(ReduceOp op = ReduceOp::sum) { return {Placement::Kind::partial, -1, 1, op}; }
inline Placement PerLane(int dim = -1) { return {Placement::Kind::per_lane, dim, 1, ReduceOp::sum}; }

// "Replicate", "Shard(0)", "Shard(0,groups=3)", "Partial(sum)", "PerLane", "PerLane(0)"
std::string text(const Placement& placement);
Placement parse_placement(std::string_view text);  // the same words, any case; UserError listing them

}  // namespace lockstep
