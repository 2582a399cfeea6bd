// Ids by which each sample takes its own elements, and positions of samples through reshapes.
#pragma once

#include <optional>

#include "compiler/trace/shares.h"

namespace lockstep::compiler {

int64_t stride_of(const Shape& shape, size_t dim);
// The position of the samples after a reshape; none if they are no longer together.
std::optional<Share> reshaped(const Share& place, const Shape& from, const Shape& to, int64_t samples);
// If ids are inner * (the sample's number) + ...: the position of the samples in them.
std::optional<Share> counted_by_sample(const Graph& graph, ValueId ids, int64_t inner, int64_t samples);
// For an iota over samples * inner places and its remainder by `v`: these are numbers within a sample if v
// divides inner.
std::optional<Share> numbers_within(const Graph& graph, ValueId iota, ValueId v, int64_t samples);

}  // namespace lockstep::compiler
