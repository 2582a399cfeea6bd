// ChecksummedGroup: a host group whose messages are followed by what was sent: number, bytes and XXH3-64,
// checked where they arrive.
//
// all_gather, broadcast, all_to_all, send and recv: each part against its sender's checksum, so that the
// error names both ranks. Maxima, minima and reductions of integers of up to 64 KiB are gathered, checked,
// and reduced in rank order. Larger sums of integers, and reduce_scatter of integers, are checked by a linear
// checksum: the sum of the ranks' checksums is the checksum of the sum; the error names the rank that found
// it. Sums of floats (train.numerics=free alone has them) cannot be checked, since their order is the
// library's; barriers carry nothing.
#pragma once

#include <memory>
#include <string>

#include "core/mesh/group.h"

namespace lockstep::distributed {

// The same ranks. Waits throw PeerError where something arrived other than it was sent, or in another's
// place. All ranks must do this.
std::shared_ptr<Group> checksummed(std::shared_ptr<Group> group);

// Whether LOCKSTEP_VERIFY_COLLECTIVES asks for checksums: on; auto where messages leave the memory of a host
// (`over_network`). UserError for another word.
bool wants_checksums(bool over_network);

}  // namespace lockstep::distributed
