// Replicas: state that several ranks store whole. Their checksums are compared, which reveals a flipped bit
// in one rank's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/program/words/replica.h"
#include "core/mesh/group.h"

namespace lockstep::compiler {

// One word per rank. Its sum over all ranks, as wrapping integers, is 0 if all replicas have equal sums;
// otherwise it is nonzero, except with probability 2^-64.
int64_t replica_word(const std::vector<Replica>& replicas, const std::vector<uint64_t>& sums);

// The sentence about replicas whose sums differ: the first tensor, and the rank (by majority if there are
// three or more). "" if all are equal. Collective over `world`.
std::string replica_difference(const std::vector<Replica>& replicas, const std::vector<uint64_t>& sums,
                               Group& world);

}  // namespace lockstep::compiler
