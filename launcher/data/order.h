// The order of samples: a pure function of (seed, global sample index), without a table and without a state.
#pragma once

#include <cstdint>

namespace lockstep::launcher::data {

// Element `index` of a pseudo-random permutation of 0..count-1, keyed by (seed, epoch): a Feistel network of
// eight rounds over the smallest even number of bits that holds count, walked until it lands below count
// (Black & Rogaway, CT-RSA 2002). Needs 0 <= index < count and epoch >= 0; InternalError otherwise.
int64_t permuted(int64_t index, int64_t count, uint64_t seed, int64_t epoch);

// Sequence that global sample g reads, of `count` sequences. Epoch e holds the samples
// e*count..e*count+count-1. sequential: g mod count, so it wraps to sequence 0. shuffle: the epoch's
// permutation of g mod count; each sequence once per epoch.
int64_t sequence_of(int64_t g, int64_t count, bool shuffle, uint64_t seed);

}  // namespace lockstep::launcher::data
