// Exposed communication: the seconds for which computation cannot hide it. Arithmetic alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// Buckets that leave while the computation goes on. A round of `round` seconds of computation makes bucket b
// at ready[b] (ascending); it travels for travel[b], one bucket after the other on one link. The same again
// in each of `rounds` rounds, which follow each other without a pause. Returns how long the last bucket is
// under way after the last round has ended, at least 0.
double exposed_after(const std::vector<double>& ready, const std::vector<double>& travel, double round,
                     int64_t rounds = 1);

// Buckets that must be there before the computation goes on. Bucket b, which travels for travel[b], is read
// when `needed[b]` seconds of computation (ascending) are done. They travel one after the other, from the
// start; where `ahead` is not 0, bucket b only when the computation has reached the point where bucket b -
// ahead is read. Returns how long the computation stands still in all.
double exposed_before(const std::vector<double>& needed, const std::vector<double>& travel, size_t ahead = 0);

}  // namespace lockstep
