// Ids by which each sample takes elements of its own, and places of samples through reshapes.
#pragma once

#include <optional>

#include "compiler/trace/shares.h"

namespace lockstep::compiler {

int64_t stride_of(const Shape& shape, size_t dim);
// Where the samples lie behind a reshape: none where they come apart.
std::optional<Share> reshaped(const Share& place, const Shape& from, const Shape& to, int64_t samples);
// Where ids are inner * (the sample's number) + ...: the place of the samples in them.
std::optional<Share> counted_by_sample(const Graph& graph, ValueId ids, int64_t inner, int64_t samples);
// An iota over samples * inner places, of which the remainder by `v` is taken: numbers within a sample, where
// v divides inner.
std::optional<Share> numbers_within(const Graph& graph, ValueId iota, ValueId v, int64_t samples);

}  // namespace lockstep::compiler
