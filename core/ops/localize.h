// Attributes of a node on one rank: attributes that are sizes become local sizes.
#pragma once

#include <map>
#include <vector>

#include "core/ops/op.h"

namespace lockstep {

// The attributes of `op` if its outputs have these local shapes (one per output) under its placement rule.
// `shape` and `rows` become local, and a slice of a whole dim becomes a slice of the whole local dim.
// Everything else is the same on all ranks.
Attrs localize_attrs(const Op& op, const Attrs& attrs, const std::vector<Shape>& local_out);

// `shape` with the size from `sizes` in every dim whose letter it has; `letters` is the tensor's entry in a
// SplitRule.
Shape localize_shape(const Shape& shape, const std::string& letters, const std::map<char, int64_t>& sizes);
// The same with sizes per letter: the rank holds `sizes[letter]` of each sharded letter.
Attrs localize_attrs(const Op& op, const Attrs& attrs, const SplitRule& rule,
                     const std::vector<TypedShape>& out, const std::map<char, int64_t>& sizes);

}  // namespace lockstep
