// Replicas: what several ranks hold whole and alike, as checksums that are compared: a bit that flipped in
// one rank's memory shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/program/replica.h"
#include "core/mesh/group.h"

namespace lockstep::compiler {

// One word per rank whose sum over all ranks, as wrapping integers, is 0 where all replicas have equal sums;
// else it is not, but for one chance in 2^64.
int64_t replica_word(const std::vector<Replica>& replicas, const std::vector<uint64_t>& sums);

// The sentence about replicas whose sums differ: the first tensor, and the rank (a majority decides where
// there are three or more). "" where all are equal. Collective over `world`.
std::string replica_difference(const std::vector<Replica>& replicas, const std::vector<uint64_t>& sums,
                               Group& world);

}  // namespace lockstep::compiler
