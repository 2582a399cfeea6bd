// Attributes of a node on one rank: those that name sizes follow the local sizes.
#pragma once

#include <map>
#include <vector>

#include "core/ops/op.h"

namespace lockstep {

// Attributes of `op` when its outputs have these local shapes (one per output) under its own placement rule:
// `shape` and `rows` become local, a slice that keeps a whole dim keeps the whole local dim. Everything else
// is the same on all ranks.
Attrs localize_attrs(const Op& op, const Attrs& attrs, const std::vector<Shape>& local_out);

// `shape` with every dim that carries a letter of `sizes` at that size; `letters` is the tensor's entry in a
// SplitRule.
Shape localize_shape(const Shape& shape, const std::string& letters, const std::map<char, int64_t>& sizes);
// The same with sizes per letter: what a rank holds when it has `sizes[letter]` of each sharded letter.
Attrs localize_attrs(const Op& op, const Attrs& attrs, const SplitRule& rule,
                     const std::vector<TypedShape>& out, const std::map<char, int64_t>& sizes);

}  // namespace lockstep
